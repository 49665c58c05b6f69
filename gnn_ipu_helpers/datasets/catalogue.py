"""What each dataset is: its raw files and what is in them, where they may lie and where they come from."""

from __future__ import annotations

from typing import NamedTuple, Optional, Tuple

Shape = Optional[Tuple[int, ...]]


class Entry(NamedTuple):
    """One dataset.

    Attributes:
        name: what it is called.
        folders: where its raw files may lie under the root; downloads go to the first.
        files: each raw file and the shape of its content (None: any).
        urls: what to download, zip archives or the files themselves; the same as PyG's.
        arguments: what PyG's class takes after the root.
        stand_in: what its stand-in is, in words.
    """

    name: str
    folders: tuple[str, ...]
    files: dict[str, Shape]
    urls: tuple[str, ...]
    arguments: tuple[str, ...] = ()
    stand_in: str = "made-up data with the original's schema, sizes and label balance"


def _planetoid(name: str, num_nodes: int, num_features: int, num_classes: int) -> Entry:
    num_train, num_test = 20 * num_classes, 1000
    rows = {"": num_train, "t": num_test, "all": num_nodes - num_test}
    shapes: dict[str, Shape] = {f"{part}x": (count, num_features) for part, count in rows.items()}
    shapes.update({f"{part}y": (count, num_classes) for part, count in rows.items()})
    shapes.update({"graph": (num_nodes,), "test.index": (num_test,)})
    files = {f"ind.{name.lower()}.{part}": shape for part, shape in shapes.items()}
    return Entry(
        name,
        (f"{name}/{name}/raw", f"{name}/raw", f"Planetoid/{name}/raw"),
        files,
        tuple(f"https://github.com/kimiyoung/planetoid/raw/master/data/{file}" for file in files),
        (name,),
    )


def _tu(name: str, shapes: dict[str, Shape]) -> Entry:
    return Entry(
        name,
        (f"TUDataset/{name}/raw", f"{name}/raw", f"{name}/{name}/raw"),
        {f"{name}_{part}.txt": shape for part, shape in shapes.items()},
        (f"https://www.chrsmrrs.com/graphkerneldatasets/{name}.zip",),
        (name,),
    )


CORA = _planetoid("Cora", num_nodes=2708, num_features=1433, num_classes=7)
PUBMED = _planetoid("PubMed", num_nodes=19717, num_features=500, num_classes=3)
MUTAG = _tu(
    "MUTAG",
    {
        "A": (7442, 2),
        "graph_indicator": (3371,),
        "graph_labels": (188,),
        "node_labels": (3371,),
        "edge_labels": (7442,),
    },
)
PROTEINS = _tu(
    "PROTEINS",
    {
        "A": (162088, 2),
        "graph_indicator": (43471,),
        "graph_labels": (1113,),
        "node_labels": (43471,),
        "node_attributes": (43471,),
    },
)
IMDB = Entry(
    "IMDB",
    ("IMDB/raw",),
    {
        "adjM.npz": (11616, 11616),
        "features_0.npz": (4278, 3066),
        "features_1.npz": (2081, 3066),
        "features_2.npz": (5257, 3066),
        "labels.npy": (4278,),
        "train_val_test_idx.npz": (4278,),
    },
    ("https://www.dropbox.com/s/g0btk9ctr1es39x/IMDB_processed.zip?dl=1",),
)
# `qm9_v3.pt` alone is enough and needs no RDKit; any number of molecules is welcome.
QM9 = Entry(
    "QM9",
    ("QM9/raw", "qm9/raw"),
    {"qm9_v3.pt": None},
    ("https://data.pyg.org/datasets/qm9_v3.zip",),
    stand_in="other molecules of the same kind, sizes and schema",
)
QM9_NUM_MOLECULES = 130831
_IDX_SHAPES: dict[str, Shape] = {
    "train-images-idx3-ubyte": (60000, 28, 28),
    "train-labels-idx1-ubyte": (60000,),
    "t10k-images-idx3-ubyte": (10000, 28, 28),
    "t10k-labels-idx1-ubyte": (10000,),
}
FASHION_MNIST = Entry(
    "FashionMNIST",
    ("FashionMNIST/FashionMNIST/raw", "FashionMNIST/raw"),
    _IDX_SHAPES,
    # The authors' repository: the mirror that torchvision names speaks http only.
    tuple(
        f"https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/{file}.gz"
        for file in _IDX_SHAPES
    ),
)

# SHA-256 of the content of the original files, unpacked where they are gzipped. Of text files only the
# numbers count, as copies differ in line ends and spaces (`real_data.content_digest`). `qm9_v3.pt` is not
# here: no copy of the whole file was at hand, so its download is held to its zip archive's checksum alone.
SHA256 = {
    "ind.cora.allx": "9419ba2f26f5c35243db64aba110e0f35a04851609e0dc5433450676ca6b8543",
    "ind.cora.ally": "2b998f5cc7fedc86e7f97ca2498f47a1ffc1462c29e2d578b23bf3f62b6e7d71",
    "ind.cora.graph": "58f13302f39dde8852dad6fe6d15b89b077b6d7f837626bce671ef80344b383d",
    "ind.cora.test.index": "85b8b6113ac8eb1dc26b6e76fc2a7ee9fe1633b2fca34150ebecbaabdf5521da",
    "ind.cora.tx": "b9afbaa4a400df991f6f02ef677e1e44da55ffc04801fd02f9e673987829226a",
    "ind.cora.ty": "41f5ac76596a1699cc33f53084a2419e92961c42bb75f36fc38e616d348532ad",
    "ind.cora.x": "23cfa55d91c6f624233f5eb7b6e3f141f1bd2b2ae39608a63cf5d084bb27baab",
    "ind.cora.y": "94465c14eb53e04ca262198dcbb2521ee8af60fb3f3d546cd6ca24a511b0e7d1",
    "ind.pubmed.allx": "508e538e2abdccdd54c4d3e9f49d638b4af7107d85845f66ddea5a5152658b7e",
    "ind.pubmed.ally": "0c37bbe3b5014ec365e9d393cf4791925e5ed94fb194305d74f064a8d7b50f0e",
    "ind.pubmed.graph": "5b89f0036ca22909471f1e6558eb42fa06e0c730a577bde5b058b40638f81dc9",
    "ind.pubmed.test.index": "28399bb7439c96b93d406096911db7a00539137da0a638433b2360cfabca07d4",
    "ind.pubmed.tx": "4eb5f5d0f30f26497eb0ac6ac9719d09c67e284f1ed0385c93f3ef27a671da3d",
    "ind.pubmed.ty": "ee2e0d4819d9fbcc403689c3bf2e49face401b605932f093bc58ab6461130fdd",
    "ind.pubmed.x": "fbe9cb5c47200d1b7769a26e579be3b7130b556831f9d850e77c4c74f2599b33",
    "ind.pubmed.y": "e6c807633307a07ed659249006536a147c7999c797f11a2560752990181b41b3",
    "MUTAG_A.txt": "b874b50c0136bf692d488a0b53af2e40c88653c27f912fb7bd96b9afe420bb25",
    "MUTAG_edge_labels.txt": "146b2c2eb0277fecead964db5c496b326496ab1250018e11c0f035696de03f23",
    "MUTAG_graph_indicator.txt": "f7ebaadf582724b840f7f2996347161c6f07dc59f764bb1d886ca7b312e9d60a",
    "MUTAG_graph_labels.txt": "a9ba847df77e43b6036bda4c76e4914dc58676ff7ee1ed25c0f9b9879afb0cf0",
    "MUTAG_node_labels.txt": "42a76ae678fe1c1a4f65d8d770c41c2bb3d22e2190bf7fa66f523c7ae7ab3bea",
    "PROTEINS_A.txt": "b0d1ed7a2f843113df7798ba27149c5376c0f043a1bb267485a949eacc77b180",
    "PROTEINS_graph_indicator.txt": "b47e47672710e8e7f330c2d8b71bce7cf73d9780de6bec79ff5d98e538fcd4f4",
    "PROTEINS_graph_labels.txt": "8186f9b6ab64c57a8c3d43ca0ee8d799295aeb31ce84c6e28049d330a36d315a",
    "PROTEINS_node_attributes.txt": "220fb9bb12520ea1f2891b892c46eae1a029da7a4735703431df64fb4ed5b45b",
    "PROTEINS_node_labels.txt": "8183f6f8b6e60f5447f41667fd2622748d3d72928530cb9b99ac5a6fbda5a950",
    "adjM.npz": "77c00acbaf71adab9b2b187ca4bdec87b9bef02119f9eeec6ea20727914b5483",
    "features_0.npz": "013d2012c991f732470e9ff83c4f3c67d26d967d51ea4d41323ce9bb7697dfff",
    "features_1.npz": "b26156fdc4a35c5a710c0729bf7e8013b3b0e04343fc43b2142bdd39558f824b",
    "features_2.npz": "90f3e60bde9c5069b8341a66f7fcc9de532898810f41c9b53544a653d2820043",
    "labels.npy": "44597a10efda21f244132e673123103f9656d895246210519a8ab7eb8a7da74d",
    "train_val_test_idx.npz": "8b3c388427ce6fc9981b46fa4c3241d8713c3ef6f2f44dd2144e794d5b6a8926",
    "t10k-images-idx3-ubyte": "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
    "t10k-labels-idx1-ubyte": "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    "train-images-idx3-ubyte": "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
    "train-labels-idx1-ubyte": "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
}

"""What each dataset is called, which raw files it has, where they may lie and where they come from."""

from __future__ import annotations

from typing import NamedTuple, Optional, Tuple

Shape = Optional[Tuple[int, ...]]


class Entry(NamedTuple):
    """One dataset: `files` maps each raw file to the shape of its content (None: any)."""

    name: str
    folders: tuple[str, ...]
    files: dict[str, Shape]
    url: str
    stand_in: str = "made-up data with the original's schema, sizes and label balance"

    @property
    def home(self) -> str:
        """Folder of the raw files relative to the root where we tell people to put them."""
        return self.folders[0]


def _planetoid(name: str, num_nodes: int, num_features: int, num_classes: int) -> Entry:
    num_train, num_test = 20 * num_classes, 1000
    rows = {"x": num_train, "tx": num_test, "allx": num_nodes - num_test}
    labels = {"y": num_train, "ty": num_test, "ally": num_nodes - num_test}
    shapes: dict[str, Shape] = {part: (count, num_features) for part, count in rows.items()}
    shapes.update({part: (count, num_classes) for part, count in labels.items()})
    shapes.update({"graph": (num_nodes,), "test.index": (num_test,)})
    return Entry(
        name,
        (f"{name}/{name}/raw", f"{name}/raw", f"Planetoid/{name}/raw"),
        {f"ind.{name.lower()}.{part}": shape for part, shape in shapes.items()},
        f"https://github.com/kimiyoung/planetoid/raw/master/data/ind.{name.lower()}.test.index",
    )


def _tu(name: str, shapes: dict[str, Shape]) -> Entry:
    return Entry(
        name,
        (f"TUDataset/{name}/raw", f"{name}/raw", f"{name}/{name}/raw"),
        {f"{name}_{part}.txt": shape for part, shape in shapes.items()},
        f"https://www.chrsmrrs.com/graphkerneldatasets/{name}.zip",
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
    "https://www.dropbox.com/s/g0btk9ctr1es39x/IMDB_processed.zip?dl=1",
)
# `qm9_v3.pt` alone is enough and needs no RDKit; any number of molecules is welcome.
QM9 = Entry(
    "QM9",
    ("QM9/raw", "qm9/raw"),
    {"qm9_v3.pt": None},
    "https://data.pyg.org/datasets/qm9_v3.zip",
    "other molecules with the original's schema",
)
QM9_NUM_MOLECULES = 130831
FASHION_MNIST = Entry(
    "FashionMNIST",
    ("FashionMNIST/FashionMNIST/raw", "FashionMNIST/raw"),
    {
        "train-images-idx3-ubyte": (60000, 28, 28),
        "train-labels-idx1-ubyte": (60000,),
        "t10k-images-idx3-ubyte": (10000, 28, 28),
        "t10k-labels-idx1-ubyte": (10000,),
    },
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/train-labels-idx1-ubyte.gz",
)

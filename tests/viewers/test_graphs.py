"""Samples and schemas are drawn with the counts of the data."""

import numpy as np
import pytest
import torch
from torch_geometric.data import Data, HeteroData

from gnn_ipu_helpers import viewers

from .conftest import texts


@pytest.fixture
def sample():
    """Two seeds, 0 and 1; 2 and 3 sampled for them, 4 for 2, and 5 unconnected."""
    edges = torch.tensor([[2, 3, 4, 0], [0, 1, 2, 1]])
    return Data(edge_index=edges, num_nodes=6, batch_size=2)


def drawn(picture):
    """How many nodes are drawn under each name of the legend."""
    return {found.get_label(): len(found.get_offsets()) for found in picture.figure.axes[0].collections}


def test_nodes_are_drawn_by_hop_from_the_seeds(sample):
    picture = viewers.subgraph(sample)
    assert drawn(picture) == {
        "seeds (2)": 2,
        "1 hop (2)": 2,
        "2 hops (1)": 1,
        "not connected to a seed (1)": 1,
    }
    (lines,) = picture.figure.axes[0].get_lines()
    assert np.isnan(lines.get_xdata()).sum() == 4  # a gap behind each edge
    assert picture.alt == (
        "Sampled neighbourhood: 6 nodes, 4 edges. In rings: 2 seeds, 2 at 1 hop and 1 at 2 hops; "
        "1 not connected to a seed."
    )


def test_padding_of_a_sample_is_counted_and_not_drawn(sample):
    padded = Data(
        edge_index=torch.cat([sample.edge_index, torch.full((2, 3), 6)], dim=1),
        num_nodes=9,
        batch_size=2,
        nodes_mask=torch.arange(9) < 6,
        edges_mask=torch.arange(7) < 4,
    )
    picture = viewers.subgraph(padded)
    assert drawn(picture) == drawn(viewers.subgraph(sample))
    assert "6 nodes, 4 edges (padding, not drawn: 3 nodes, 3 edges)" in texts(picture)


def test_a_batch_without_seeds_is_refused():
    with pytest.raises(ValueError, match="`batch_size`"):
        viewers.subgraph(Data(edge_index=torch.zeros(2, 1, dtype=torch.long), num_nodes=2))


def test_the_schema_names_and_counts_every_type():
    data = HeteroData()
    data["movie"].x = torch.zeros(4278, 12)
    data["actor"].num_nodes = 5257
    data["movie", "to", "actor"].edge_index = torch.zeros(2, 12828, dtype=torch.long)
    data["actor", "to", "movie"].edge_index = torch.zeros(2, 12828, dtype=torch.long)
    picture = viewers.schema(data)
    assert {"movie", "actor", "4,278 nodes\n12 features", "5,257 nodes\nno features"} <= set(texts(picture))
    assert texts(picture).count("to\n12,828 edges") == 2
    assert picture.alt == (
        "Types of a heterogeneous graph: 4,278 movie nodes and 5,257 actor nodes. "
        "Edges: movie to actor (to, 12,828) and actor to movie (to, 12,828)."
    )


def test_labels_of_the_schema_keep_clear_of_the_boxes():
    """IMDB's three types: no label lies on a box or on another label."""
    data = HeteroData()
    for kind in ("movie", "director", "actor"):
        data[kind].x = torch.zeros(1, 3066)
        data[kind].num_nodes = 5257
    for source, target in (
        ("movie", "director"),
        ("movie", "actor"),
        ("director", "movie"),
        ("actor", "movie"),
    ):
        data[source, "to", target].edge_index = torch.zeros(2, 12828, dtype=torch.long)
    figure = viewers.schema(data).figure
    figure.canvas.draw()
    axes = figure.axes[0]
    labels = [text.get_window_extent() for text in axes.texts if "edges" in text.get_text()]
    boxes = [patch.get_window_extent() for patch in axes.patches if hasattr(patch, "get_boxstyle")]
    assert len(labels) == 4
    assert len(boxes) == 3
    assert not any(label.overlaps(box) for label in labels for box in boxes)
    assert not any(one.overlaps(other) for one in labels for other in labels if one is not other)


def test_a_schema_without_edges_says_so():
    data = HeteroData()
    data["movie"].num_nodes = 1
    assert viewers.schema(data).alt == "Types of a heterogeneous graph: 1 movie node. Edges: none."

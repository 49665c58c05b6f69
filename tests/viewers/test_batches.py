"""What a drawing of a batch shows is what the batch holds."""

import pytest
import torch
from matplotlib.collections import PathCollection
from torch_geometric.data import HeteroData
from torch_geometric.loader import DataLoader

from gnn_ipu_helpers import FixedSizeDataLoader, FixedSizeOptions, viewers

from .conftest import graph, texts


def dots(picture):
    """How many nodes are drawn."""
    return sum(len(found.get_offsets()) for found in picture.figure.findobj(PathCollection))


def test_every_node_is_drawn_and_every_count_written(fixed_batch):
    picture = viewers.batch(fixed_batch)
    assert dots(picture) == 12
    assert texts(picture).count("3 nodes\n6 edges") == 1
    assert texts(picture).count("4 nodes\n6 edges") == 1
    assert texts(picture).count("3 nodes\n4 self-loops") == 1
    assert texts(picture).count("2 nodes\n4 self-loops") == 1
    strips = {"7 real + 5 pad = 12", "12 real + 8 pad = 20", "2 real + 2 pad = 4"}
    assert strips <= set(texts(picture))


def test_alternative_text_tells_the_same_counts(fixed_batch):
    assert viewers.batch(fixed_batch).alt == (
        "Drawing of a mini-batch: 12 nodes (7 real, 5 padding), 20 edges (12 real, 8 padding), "
        "4 graphs (2 real, 2 padding). "
        "2 padding graphs in grey, their edges self-loops on their first node."
    )


def test_a_pyg_batch_has_no_padding(pyg_batch):
    picture = viewers.batch(pyg_batch)
    assert dots(picture) == 7
    assert {"7, all real", "12, all real", "2, all real"} <= set(texts(picture))
    assert "padding" not in picture.alt


def test_a_single_graph_is_a_batch_of_one(two_graphs):
    assert "3 nodes, 6 edges, 1 graph." in viewers.batch(two_graphs[0]).alt


def test_graphs_beyond_the_limit_are_counted_and_said_to_be_missing(two_graphs):
    batch = next(iter(DataLoader(two_graphs * 3, batch_size=6)))
    picture = viewers.batch(batch, max_graphs=2)
    assert dots(picture) == 7
    assert "2 of 6 graphs drawn above" in texts(picture)
    assert "21 nodes, 36 edges, 6 graphs. 2 of the graphs are drawn." in picture.alt


def test_padding_nodes_beyond_what_fits_are_said_to_be_missing(two_graphs):
    options = FixedSizeOptions(num_nodes=90, num_edges=30, num_graphs=3)
    batch = next(iter(FixedSizeDataLoader(two_graphs, batch_size=3, fixed_size_options=options)))
    picture = viewers.batch(batch)
    assert "60 drawn" in texts(picture)
    assert "83 nodes\n18 self-loops" in texts(picture)


def test_two_batches_in_one_figure_keep_their_counts(pyg_batch, fixed_batch):
    picture = viewers.batches(pyg_batch, fixed_batch)
    assert dots(picture) == 7 + 12 - 2  # only the first padding graph is drawn, and said so
    assert "3 of 4 graphs drawn above" in texts(picture)
    assert {"PyG batch", "Fixed-size batch", "7, all real", "7 real + 5 pad = 12"} <= set(texts(picture))


def test_two_batches_share_one_scale(pyg_batch, fixed_batch):
    figure = viewers.batches(pyg_batch, fixed_batch).figure
    strips = [axes for axes in figure.axes if "nodes" in {text.get_text() for text in axes.texts}]
    top = [[patch for patch in axes.patches if patch.get_y() == 2.2] for axes in strips]
    small, large = (max(patch.get_x() + patch.get_width() for patch in bar) - 0.12 for bar in top)
    assert small / large == pytest.approx(7 / 12, abs=1e-6)


def test_adjacency_has_a_square_per_edge_and_a_line_of_the_batch_vector_per_node(fixed_batch):
    picture = viewers.adjacency(fixed_batch)
    matrix, strip = picture.figure.axes
    squares = [patch for patch in matrix.patches if patch.get_width() == patch.get_height() == 1]
    places = {(patch.get_y(), patch.get_x()) for patch in squares}
    assert places == {tuple(pair) for pair in fixed_batch.edge_index.t().tolist()}
    vector = [text.get_text() for text in sorted(strip.texts, key=lambda text: text.get_position()[1])]
    assert vector == [str(graph) for graph in fixed_batch.batch.tolist()]
    assert "4 blocks on the diagonal" in picture.alt


def test_the_drawing_follows_the_masks_and_not_the_position(fixed_batch):
    fixed_batch.graphs_mask = torch.tensor([False, True, True, False])
    drawn = texts(viewers.batch(fixed_batch))
    assert {"padding 0", "graph 1", "graph 2", "padding 3"} <= set(drawn)


def test_self_loops_of_a_real_graph_are_drawn(two_graphs):
    looped = graph(2, [(0, 1)])
    looped.edge_index = torch.cat([looped.edge_index, torch.tensor([[0, 1], [0, 1]])], dim=1)
    axes = viewers.batch(looped).figure.axes[0]
    assert len(axes.patches) == 2
    assert viewers.batch(two_graphs[0]).figure.axes[0].patches[:] == []


def test_a_combined_batch_is_refused_with_the_remedy(fixed_batch):
    fixed_batch.edge_index = torch.cat([fixed_batch.edge_index, fixed_batch.edge_index])
    with pytest.raises(ValueError, match=r"got \[4, 20\].*without `options`"):
        viewers.batch(fixed_batch)


def test_a_heterogeneous_batch_is_refused_with_the_remedy():
    with pytest.raises(ValueError, match=r"schema\(\)"):
        viewers.batch(HeteroData())


def test_a_mask_of_the_wrong_length_is_refused(fixed_batch):
    fixed_batch.nodes_mask = fixed_batch.nodes_mask[:-1]
    with pytest.raises(ValueError, match=r"nodes_mask should have one value for each of 12 \(got 11\)"):
        viewers.batch(fixed_batch)

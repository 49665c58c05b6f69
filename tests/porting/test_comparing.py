"""What a loader's shapes cost, and where a padded batch and its graphs one by one part."""

import pytest
import torch
import torch.nn.functional as F
import torch_geometric.loader
from torch import nn
from torch_geometric.data import Data, HeteroData
from torch_geometric.nn import HeteroConv, SAGEConv, global_mean_pool

from gnn_ipu_helpers import FixedSizeDataLoader, FixedSizeNeighborLoader, FixedSizeOptions
from gnn_ipu_helpers.porting import compare_padded, compilations

generator = torch.Generator().manual_seed(0)


def graph(number):
    size = 3 + number % 5
    edges = torch.randint(0, size, (2, 2 * size), generator=generator)
    return Data(x=torch.randn(size, 4, generator=generator), edge_index=edges, y=torch.tensor([number % 2]))


dataset = [graph(number) for number in range(12)]
fixed = FixedSizeDataLoader(dataset, batch_size=5)
plain = torch_geometric.loader.DataLoader(dataset, batch_size=4)


class Classifier(nn.Module):
    def __init__(self, leaks=False):
        super().__init__()
        self.leaks = leaks
        self.conv, self.lin = SAGEConv(4, 8), nn.Linear(8, 2)

    def forward(self, x, edge_index, batch, y, graphs_mask):
        x = self.conv(x, edge_index)
        x = x - x.mean(dim=0) if self.leaks else x
        out = self.lin(global_mean_pool(x, batch, size=5))
        return out, x, F.cross_entropy(out, torch.where(graphs_mask, y, -100))


class OfABatch(nn.Module):
    def forward(self, data):
        return data.x


def test_fixed_sizes_cost_one_graph():
    found = compilations(Classifier(), fixed)

    assert (found.count, found.batches, found.differs) == (1, 3, {})
    assert str(found) == "1 graph to compile for 3 batches."


def test_other_loaders_cost_one_for_each_shape_and_the_table_names_what_differs():
    found = compilations(OfABatch(), plain)

    assert (found.count, found.batches) == (3, 3)
    assert list(found.differs) == ["data.x", "data.edge_index", "data.batch"]
    assert found.differs["data.x"] == ["[18, 4]", "[19, 4]", "[20, 4]"]
    assert "data.edge_index" in str(found)
    assert "<table" in found._repr_html_()


def test_arguments_are_taken_from_the_batch_by_name_or_by_a_function():
    found = compilations(Classifier(), plain, inputs=lambda batch: (batch.x, batch.edge_index))
    assert list(found.differs) == ["argument 1", "argument 2"]
    with pytest.raises(ValueError, match=r"no graphs_mask.*pass inputs="):
        compilations(Classifier(), plain)


def test_a_model_that_keeps_padding_out_gives_the_same_padded_and_one_by_one():
    found = compare_padded(Classifier(), fixed)

    assert found.ok
    assert str(found) == "12 graphs: padded and one by one give the same."


def test_the_first_module_that_differs_is_named():
    (batch, *_) = fixed
    found = compare_padded(Classifier(leaks=True), batch)

    assert not found.ok
    assert found.first == "model.lin"
    assert found.differences["model.conv"] < 1e-5 < found.differences["the result"]
    assert "part at model.lin" in str(found)
    assert "model.lin" in found._repr_html_()


def test_the_model_stays_as_it_is():
    model = Classifier().train()
    compare_padded(model, fixed)

    assert model.training
    assert len(model.lin._forward_hooks) == 0


def test_batches_without_masks_are_refused():
    with pytest.raises(ValueError, match="add_pad_masks=True"):
        compare_padded(OfABatch(), plain)


def films(number):
    """A graph of two node types, of sizes that no other count in a batch equals."""
    data, films, actors = HeteroData(), 3 + number % 4, 2 + number % 3
    data["movie"].x = torch.randn(films, 4, generator=generator)
    data["actor"].x = torch.randn(actors, 4, generator=generator)
    data["movie"].y = torch.randint(0, 3, (films,), generator=generator)
    for source, target, sizes in (("actor", "movie", (actors, films)), ("movie", "actor", (films, actors))):
        ends = [torch.randint(0, size, (5 + number % 2,), generator=generator) for size in sizes]
        data[source, "to", target].edge_index = torch.stack(ends)
    data.y = torch.tensor([number % 2])
    return data


class FilmClassifier(nn.Module):
    """Classes of movies, and of whole graphs."""

    def __init__(self, leaks=False):
        super().__init__()
        self.leaks = leaks
        kinds = [("actor", "to", "movie"), ("movie", "to", "actor")]
        self.conv = HeteroConv({kind: SAGEConv(4, 8) for kind in kinds})
        self.lin = nn.Linear(8, 3)

    def forward(self, x_dict, edge_index_dict, y_dict, nodes_mask_dict, batch_dict):
        x_dict = self.conv(x_dict, edge_index_dict)
        actors = x_dict["actor"]
        actors = actors - actors.amax(dim=0) if self.leaks else actors
        out = self.lin(x_dict["movie"])
        whole = self.lin(global_mean_pool(actors, batch_dict["actor"], size=4))
        labels = torch.where(nodes_mask_dict["movie"], y_dict["movie"], -100)
        return out, whole, F.cross_entropy(out, labels)


hetero = FixedSizeDataLoader([films(number) for number in range(10)], batch_size=4)


def test_heterogeneous_graphs_are_compared_by_the_rows_of_each_type():
    found = compare_padded(FilmClassifier(), hetero)

    assert str(found) == "10 graphs: padded and one by one give the same."
    assert {"model.conv", "model.lin", "the result"} <= set(found.differences)


def test_padding_that_leaks_through_one_node_type_is_named():
    found = compare_padded(FilmClassifier(leaks=True), hetero)

    assert found.first == "model.lin"
    assert found.differences["model.conv"] < 1e-5 < found.differences["the result"]


def test_a_whole_heterogeneous_batch_can_be_the_argument():
    class OfABatch(nn.Module):
        def forward(self, data):
            return data["movie"].x - data["movie"].x.mean(dim=0)

    (batch, *_) = hetero
    assert not compare_padded(OfABatch(), batch).ok


def test_neighbours_of_some_nodes_are_one_graph():
    class OfNeighbours(nn.Module):
        def __init__(self, leaks):
            super().__init__()
            self.conv, self.leaks = SAGEConv(4, 8), leaks

        def forward(self, x, edge_index):
            return self.conv(x - x.mean(dim=0) if self.leaks else x, edge_index)

    size = FixedSizeOptions(num_nodes=30, num_edges=60)
    loader = FixedSizeNeighborLoader(graph(7), [2, 2], batch_size=2, fixed_size_options=size)
    found = compare_padded(OfNeighbours(leaks=False), loader)

    assert (found.ok, found.graphs) == (True, len(loader))
    assert not compare_padded(OfNeighbours(leaks=True), loader).ok


def test_a_loss_over_nodes_is_compared_with_the_mean_over_all_nodes():
    class OfNodes(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = SAGEConv(4, 8)

        def forward(self, x, edge_index, nodes_mask):
            error = self.conv(x, edge_index).square().mean(dim=1) * nodes_mask
            return error.sum() / nodes_mask.sum()

    assert compare_padded(OfNodes(), fixed).ok

"""What a loader's shapes cost, and where a padded batch and its graphs one by one part."""

import pytest
import torch
import torch.nn.functional as F
import torch_geometric.loader
from torch import nn
from torch_geometric.data import Data, HeteroData
from torch_geometric.nn import SAGEConv, global_mean_pool

from gnn_ipu_helpers import FixedSizeDataLoader
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


def test_heterogeneous_batches_are_refused():
    with pytest.raises(ValueError, match="one node type"):
        compare_padded(OfABatch(), HeteroData())

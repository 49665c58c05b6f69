"""Message passing and pooling on padded and packed batches equal those on the graphs alone."""

import pytest
import torch
from torch_geometric.data import Batch
from torch_geometric.nn import (
    GATConv,
    GCNConv,
    GINConv,
    GraphConv,
    SAGEConv,
    global_add_pool,
    global_max_pool,
    global_mean_pool,
)

from gnn_ipu_helpers.batching import FixedSizeDataLoader, FixedSizeOptions, FixedSizeStrategy

from .graphs import graph

LAYERS = {
    "GCN": lambda: GCNConv(3, 5, add_self_loops=False),
    "SAGE": lambda: SAGEConv(3, 5),
    "GAT": lambda: GATConv(3, 5, add_self_loops=False),
    "GIN": lambda: GINConv(torch.nn.Linear(3, 5)),
    "GraphConv": lambda: GraphConv(3, 5, aggr="mean"),
}
POOLS = {"add": global_add_pool, "mean": global_mean_pool, "max": global_max_pool}


@pytest.fixture(scope="module")
def graphs():
    sizes = ((5, 8), (3, 0), (1, 0), (7, 12), (4, 6), (6, 9), (2, 2), (8, 20))
    data = [graph(nodes, edges, seed, names=("x", "y_graph")) for seed, (nodes, edges) in enumerate(sizes)]
    for position, one in enumerate(data):
        one.position = torch.tensor([position])
    return data


def loss_and_gradients(layer, pool, x, edge_index, batch, size, labels, weight):
    """The mean squared error over real graphs and its gradients."""
    layer.zero_grad()
    pooled = pool(layer(x, edge_index).relu(), batch, size)
    loss = (((pooled.mean(dim=1) - labels) ** 2) * weight).sum()
    loss.backward()
    return loss.detach(), [parameter.grad.clone() for parameter in layer.parameters()]


@pytest.mark.parametrize("strategy", FixedSizeStrategy)
@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("layer", LAYERS)
def test_outputs_and_gradients_are_those_of_the_graphs_alone(graphs, layer, pool, strategy):
    torch.manual_seed(0)
    model, pool = LAYERS[layer](), POOLS[pool]
    options = FixedSizeOptions(30, 60, 5, node_pad_value=3.0)
    loader = FixedSizeDataLoader(graphs, fixed_size_options=options, fixed_size_strategy=strategy)
    for batch in loader:
        loss, gradients = loss_and_gradients(
            model,
            pool,
            batch.x,
            batch.edge_index,
            batch.batch,
            5,
            batch.y[:, 0],
            batch.graphs_mask.float(),
        )
        alone = Batch.from_data_list([graphs[at] for at in batch.position[batch.graphs_mask].tolist()])
        expected, expected_gradients = loss_and_gradients(
            model, pool, alone.x, alone.edge_index, alone.batch, alone.num_graphs, alone.y[:, 0], 1.0
        )
        torch.testing.assert_close(loss, expected, rtol=1e-6, atol=1e-6)
        torch.testing.assert_close(gradients, expected_gradients, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("layer", LAYERS)
def test_real_nodes_get_the_same_features_whatever_the_padding_holds(graphs, layer):
    torch.manual_seed(0)
    model = LAYERS[layer]()
    alone = Batch.from_data_list(graphs[:4])
    expected = model(alone.x, alone.edge_index)
    for value in (0.0, 1e6):
        options = FixedSizeOptions(30, 60, 5, node_pad_value=value)
        batch = next(iter(FixedSizeDataLoader(graphs, fixed_size_options=options)))
        torch.testing.assert_close(
            model(batch.x, batch.edge_index)[batch.nodes_mask], expected, rtol=1e-6, atol=1e-6
        )

"""Small inputs that the models of the corpus are called with."""

import torch
from torch_geometric.data import Batch, Data

torch.manual_seed(0)
NUM_NODES, NUM_GRAPHS, CHANNELS, CLASSES = 12, 3, 8, 4
x = torch.randn(NUM_NODES, CHANNELS)
pos = torch.randn(NUM_NODES, 3)
batch = torch.arange(NUM_NODES) // (NUM_NODES // NUM_GRAPHS)
target = torch.arange(NUM_NODES).repeat_interleave(3)
source = batch[target] * 4 + (target % 4 + torch.arange(1, 4).repeat(NUM_NODES)) % 4
edge_index = torch.stack([source, target])
edge_attr = torch.randn(edge_index.size(1), CHANNELS)
edge_weight = torch.rand(edge_index.size(1))
edge_type = torch.arange(edge_index.size(1)) % 3
y = torch.arange(NUM_NODES) % CLASSES
graph_y = torch.arange(NUM_GRAPHS) % CLASSES
mask = torch.arange(NUM_NODES) % 2 == 0
x_dict = {"movie": x, "actor": x[:6]}
edge_index_dict = {
    ("actor", "plays", "movie"): torch.stack([source % 6, target]),
    ("movie", "with", "actor"): torch.stack([source, target % 6]),
}
metadata = (list(x_dict), list(edge_index_dict))


def padded_batch() -> Data:
    """Two real graphs and one padding graph, as the fixed-size loaders make them."""
    graphs = [Data(x=x[:4], edge_index=edge_index[:, :12]), Data(x=x[4:8], edge_index=edge_index[:, :12])]
    loops = torch.zeros(2, 12, dtype=torch.long)
    data = Batch.from_data_list([*graphs, Data(x=torch.zeros(4, CHANNELS), edge_index=loops)])
    data.nodes_mask = torch.arange(NUM_NODES) < 8
    data.graphs_mask = torch.arange(NUM_GRAPHS) < 2
    data.y = graph_y
    return data

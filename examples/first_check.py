"""What stands between a small PyG model and a static graph: the example of the site's first page."""

import torch
from torch_geometric.nn import GCNConv, global_mean_pool

from gnn_ipu_helpers import check


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = GCNConv(7, 32)

    def forward(self, x, edge_index, batch):
        return global_mean_pool(self.conv(x, edge_index), batch)


x, edge_index = torch.ones(5, 7), torch.tensor([[0, 1, 3], [1, 2, 4]])
print(check(Net().eval(), x, edge_index, batch=torch.tensor([0, 0, 0, 1, 1])))

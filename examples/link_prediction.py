"""Predict citations of Cora with a graph autoencoder, ported from PyG's examples/autoencoder.py.

    python examples/link_prediction.py

The autoencoder learns to tell citations from pairs of papers without one. PyG draws such pairs while the loss
is computed, and their number varies. Here the host draws them before each step, always the same number, and
hands them to the model.

    - z = model.encode(train_data.x, train_data.edge_index)       # outside the model
    - loss = model.recon_loss(z, train_data.pos_edge_label_index) # draws negative edges inside
    + def forward(self, x, edge_index, pos_edges=None, neg_edges=None):
    +     z = self.encode(x, edge_index)
    +     loss = self.recon_loss(z, pos_edges, neg_edges)         # every term a mean over given edges
    +     return z, poptorch.identity_loss(loss, reduction="none")

    - self.conv1 = GCNConv(in_channels, 2 * out_channels)
    + self.conv1 = GCNConv(in_channels, 2 * out_channels, add_self_loops=False)  # they are in the data

    + neg_edges = draw_negatives(known, num_nodes, count)         # on the host, before each step
"""

import argparse

import torch
import torch_geometric.transforms as T
from torch_geometric.nn import GAE, GCNConv
from torch_geometric.utils import add_self_loops
from tqdm.auto import trange

from gnn_ipu_helpers import compile_count, datasets, poptorch


class Encoder(torch.nn.Module):
    """An embedding `[num_nodes, out_channels]` of every paper."""

    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.conv1 = GCNConv(in_channels, 2 * out_channels, add_self_loops=False)
        self.conv2 = GCNConv(2 * out_channels, out_channels, add_self_loops=False)

    def forward(self, x, edge_index):
        return self.conv2(self.conv1(x, edge_index).relu(), edge_index)


class StaticGAE(GAE):
    """PyG's GAE with its loss in `forward`, over edges that are given: positive and negative `[2, E]`."""

    def forward(self, x, edge_index, pos_edges=None, neg_edges=None):
        z = self.encode(x, edge_index)
        if pos_edges is None:
            return z
        # The loss is put together of two means: the mark says that this sum is what to differentiate.
        return z, poptorch.identity_loss(self.recon_loss(z, pos_edges, neg_edges), reduction="none")


def draw_negatives(known, num_nodes, count):
    """Pairs of nodes `[2, count]` that no edge of `known` `[2, E]` joins; always exactly `count`."""
    known = known[0] * num_nodes + known[1]
    pairs = torch.randint(num_nodes**2, (2 * count,))
    pairs = pairs[~torch.isin(pairs, known)][:count]
    assert len(pairs) == count, f"the graph is too dense to find {count} pairs without an edge"
    return torch.stack([pairs // num_nodes, pairs % num_nodes])


def main(arguments=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--epochs", type=int, default=100, help="times to see the graph (100)")
    parser.add_argument("--channels", type=int, default=16, help="width of the embedding (16)")
    parser.add_argument("--lr", type=float, default=0.01, help="learning rate (0.01)")
    arguments = parser.parse_args(arguments)

    torch.manual_seed(0)
    split = T.RandomLinkSplit(
        num_val=0.05, num_test=0.1, is_undirected=True, split_labels=True, add_negative_train_samples=False
    )
    dataset = datasets.cora(transform=T.NormalizeFeatures())
    train_data, _, test_data = split(dataset[0])
    # The self-loops come after the split: they are no links to predict.
    edge_index, _ = add_self_loops(train_data.edge_index, num_nodes=train_data.num_nodes)
    pos_edges = train_data.pos_edge_label_index

    model = StaticGAE(Encoder(dataset.num_features, arguments.channels))
    optimizer = poptorch.optim.Adam(model.parameters(), lr=arguments.lr)
    training_model = poptorch.trainingModel(model.train(), optimizer=optimizer)
    for _ in trange(arguments.epochs, desc="Training", leave=False):
        neg_edges = draw_negatives(edge_index, train_data.num_nodes, pos_edges.size(1))
        training_model(train_data.x, edge_index, pos_edges, neg_edges)
    training_model.detachFromDevice()

    inference_model = poptorch.inferenceModel(model.eval())
    z = inference_model(test_data.x, edge_index)
    inference_model.detachFromDevice()
    auc, precision = model.test(z, test_data.pos_edge_label_index, test_data.neg_edge_label_index)
    print(f"area under the ROC curve {auc:.3f}; guessing: 0.500 (average precision {precision:.3f})")
    print(f"compilations of the training model: {compile_count(training_model)}")
    return auc, 0.5


if __name__ == "__main__":
    main()

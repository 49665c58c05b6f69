"""Classify the papers of Cora with two graph convolutions, ported from PyG's examples/gcn.py.

    python examples/gcn_cora.py

Cora is one graph, so its shapes never change. What changes: the self-loops move into the data, the mask into
the labels, the loss into `forward`, and one call takes the place of four.

    - dataset = Planetoid(root, "Cora", transform=T.NormalizeFeatures())
    + dataset = datasets.cora(transform=T.Compose([T.NormalizeFeatures(), T.AddSelfLoops()]))

    - self.conv1 = GCNConv(in_channels, hidden)
    + self.conv1 = GCNConv(in_channels, hidden, add_self_loops=False)

    - loss = F.cross_entropy(out[data.train_mask], data.y[data.train_mask])  # outside the model
    + loss = F.cross_entropy(out, torch.where(train_mask, y, -100))          # in `forward`

    - optimizer.zero_grad(); out = model(…); loss.backward(); optimizer.step()
    + out, loss = training_model(…)
"""

import argparse

import torch
import torch.nn.functional as F
import torch_geometric.transforms as T
from torch_geometric.nn import GCNConv
from tqdm.auto import trange

from gnn_ipu_helpers import compile_count, datasets, poptorch


class GCN(torch.nn.Module):
    """Logits `[num_nodes, num_classes]` of every paper and, given labels, the loss over those in the mask."""

    def __init__(self, in_channels, hidden, num_classes):
        super().__init__()
        self.conv1 = GCNConv(in_channels, hidden, add_self_loops=False)
        self.conv2 = GCNConv(hidden, num_classes, add_self_loops=False)

    def forward(self, x, edge_index, y=None, train_mask=None):
        x = F.dropout(x, p=0.5, training=self.training)
        x = self.conv1(x, edge_index).relu()
        x = F.dropout(x, p=0.5, training=self.training)
        out = self.conv2(x, edge_index)
        if y is None:
            return out
        return out, F.cross_entropy(out, torch.where(train_mask, y, -100))


def main(arguments=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--epochs", type=int, default=200, help="times to see the graph (200)")
    parser.add_argument("--hidden", type=int, default=16, help="width of the hidden layer (16)")
    parser.add_argument("--lr", type=float, default=0.01, help="learning rate (0.01)")
    arguments = parser.parse_args(arguments)

    torch.manual_seed(0)
    dataset = datasets.cora(transform=T.Compose([T.NormalizeFeatures(), T.AddSelfLoops()]))
    data = dataset[0]
    model = GCN(dataset.num_features, arguments.hidden, dataset.num_classes)
    # Weight decay on the first layer alone, as in PyG's script.
    groups = [
        {"params": model.conv1.parameters(), "weight_decay": 5e-4},
        {"params": model.conv2.parameters(), "weight_decay": 0.0},
    ]
    optimizer = poptorch.optim.Adam(groups, lr=arguments.lr)
    options = poptorch.Options().randomSeed(0)
    training_model = poptorch.trainingModel(model.train(), options, optimizer)
    for _ in trange(arguments.epochs, desc="Training", leave=False):
        _, loss = training_model(data.x, data.edge_index, data.y, data.train_mask)
    training_model.detachFromDevice()

    inference_model = poptorch.inferenceModel(model.eval())
    predicted = inference_model(data.x, data.edge_index).argmax(dim=1)
    inference_model.detachFromDevice()
    wanted = data.y[data.test_mask]  # on the host, boolean indexing is fine
    accuracy = (predicted[data.test_mask] == wanted).float().mean().item()
    baseline = wanted.bincount().max().item() / len(wanted)
    print(f"test accuracy {accuracy:.1%}; always naming the most frequent class: {baseline:.1%}")
    print(f"loss {loss.item():.3f}, compilations of the training model: {compile_count(training_model)}")
    return accuracy, baseline


if __name__ == "__main__":
    main()

"""Node classification on clusters of a graph, written for the Poplar SDK and for nothing else.

Where the SDK is not installed: `python -m gnn_ipu_helpers sdk_style_clusters.py --epochs 5`.
"""

import argparse

import poptorch
import torch
import torch.nn.functional as F
from poptorch_geometric.cluster_loader import FixedSizeClusterLoader
from poptorch_geometric.fixed_size_options import FixedSizeOptions
from poptorch_geometric.pyg_dataloader import OverSizeStrategy
from torch_geometric.datasets import FakeDataset
from torch_geometric.loader import ClusterData, ClusterLoader
from torch_geometric.nn import SAGEConv


class NodeClassifier(torch.nn.Module):
    """Two convolutions; in training, the loss over the real nodes is returned too."""

    def __init__(self, in_channels, hidden_channels, out_channels):
        super().__init__()
        self.conv1 = SAGEConv(in_channels, hidden_channels)
        self.conv2 = SAGEConv(hidden_channels, out_channels)

    def forward(self, x, edge_index, y, nodes_mask):
        x = self.conv1(x, edge_index).relu()
        x = F.dropout(x, p=0.2, training=self.training)
        x = F.log_softmax(self.conv2(x, edge_index), dim=1)
        if self.training:
            return x, F.nll_loss(x, torch.where(nodes_mask, y, -100))
        return x


def inputs(batch):
    return batch.x, batch.edge_index, batch.y, batch.nodes_mask


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--clusters", type=int, default=16)
    parser.add_argument("--gradient-accumulation", type=int, default=2)
    args = parser.parse_args()

    torch.manual_seed(0)
    dataset = FakeDataset(num_graphs=1, avg_num_nodes=800, num_channels=16, num_classes=4, task="node")
    clusters = ClusterData(dataset[0], num_parts=args.clusters, log=False)
    sizes = FixedSizeOptions.from_loader(ClusterLoader(clusters, batch_size=2))

    def load(options, shuffle):
        return FixedSizeClusterLoader(
            clusters,
            sizes,
            batch_size=2,
            over_size_strategy=OverSizeStrategy.TrimNodesAndEdges,
            options=options,
            shuffle=shuffle,
        )

    model = NodeClassifier(dataset.num_features, 32, dataset.num_classes)
    model.train()
    options = poptorch.Options()
    options.randomSeed(0)
    options.Training.gradientAccumulation(args.gradient_accumulation)
    options.outputMode(poptorch.OutputMode.All)
    optimizer = poptorch.optim.Adam(model.parameters(), lr=0.01)
    training_model = poptorch.trainingModel(model, options=options, optimizer=optimizer)
    loader = load(options, shuffle=True)
    for epoch in range(args.epochs):
        losses = [training_model(*inputs(batch))[1].mean() for batch in loader]
        print(f"epoch {epoch + 1}: loss {torch.stack(losses).mean():.4f}")
    training_model.detachFromDevice()

    model.eval()
    inference_model = poptorch.inferenceModel(model, options=poptorch.Options())
    hits = nodes = 0
    for batch in load(poptorch.Options(), shuffle=False):
        predictions = inference_model(*inputs(batch)).argmax(dim=1)
        hits += int((predictions == batch.y)[batch.nodes_mask].sum())
        nodes += int(batch.nodes_mask.sum())
    print(f"accuracy {hits / nodes:.1%} on {nodes} nodes")


if __name__ == "__main__":
    main()

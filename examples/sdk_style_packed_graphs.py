"""Graph classification on packed batches, written for the Poplar SDK and for nothing else.

Where the SDK is not installed: `python -m gnn_ipu_helpers sdk_style_packed_graphs.py`. The exit code is 1 if
the model learned nothing.
"""

import argparse
import sys

import poptorch
import torch
from poptorch.optim import AdamW
from poptorch_geometric import (
    FixedSizeDataLoader,
    FixedSizeOptions,
    FixedSizeStrategy,
    make_exclude_keys,
    set_aggregation_dim_size,
)
from torch_geometric.datasets import FakeDataset
from torch_geometric.nn import GINConv, Linear, global_add_pool


class GraphClassifier(torch.nn.Module):
    """One convolution and a sum over each graph, with a weighted loss that is made by hand and marked."""

    def __init__(self, in_channels, hidden_channels, out_channels, num_graphs):
        super().__init__()
        self.conv = GINConv(torch.nn.Sequential(Linear(in_channels, hidden_channels), torch.nn.ReLU()))
        self.head = Linear(hidden_channels, out_channels)
        self.num_graphs = num_graphs

    def forward(self, x, edge_index, batch, y=None, graphs_mask=None):
        x = self.conv(x, edge_index).relu()
        x = global_add_pool(x, batch, size=self.num_graphs)
        logits = self.head(x)
        if y is None:
            return logits
        losses = torch.nn.functional.cross_entropy(logits, y, reduction="none") * graphs_mask
        return logits, poptorch.identity_loss(losses.sum() / graphs_mask.sum(), reduction="none")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--device-iterations", type=int, default=2)
    args = parser.parse_args()

    torch.manual_seed(0)
    dataset = FakeDataset(num_graphs=96, avg_num_nodes=12, num_channels=8, num_classes=3)
    sizes = FixedSizeOptions(num_nodes=160, num_edges=2400, num_graphs=12)
    exclude_keys = make_exclude_keys(["x", "edge_index", "y"], dataset[0])

    def load(options, **kwargs):
        return FixedSizeDataLoader(
            dataset,
            batch_size=12,
            fixed_size_options=sizes,
            fixed_size_strategy=FixedSizeStrategy.StreamPack,
            exclude_keys=exclude_keys,
            options=options,
            **kwargs,
        )

    model = GraphClassifier(dataset.num_features, 32, dataset.num_classes, sizes.num_graphs)
    set_aggregation_dim_size(model, sizes.num_nodes)
    options = poptorch.Options()
    options.deviceIterations(args.device_iterations)
    training_model = poptorch.trainingModel(model, options, AdamW(model.parameters(), lr=0.01))
    losses = []
    for _ in range(args.epochs):
        for batch in load(options, shuffle=True):
            _, loss = training_model(batch.x, batch.edge_index, batch.batch, batch.y, batch.graphs_mask)
            losses.append(float(loss))
    training_model.destroy()
    print(f"loss {losses[0]:.3f} -> {losses[-1]:.3f}")

    model.eval()
    inference_model = poptorch.inferenceModel(model)
    hits = 0
    for batch in load(None):
        predictions = inference_model(batch.x, batch.edge_index, batch.batch).argmax(dim=1)
        hits += int((predictions == batch.y)[batch.graphs_mask].sum())
    print(f"{hits} of {len(dataset)} graphs are right")
    return 0 if hits > len(dataset) / 2 else 1


if __name__ == "__main__":
    sys.exit(main())

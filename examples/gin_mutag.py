"""Tell mutagenic molecules from others with a GIN, ported from PyG's examples/mutag_gin.py.

    python examples/gin_mutag.py

PyG's loader gives every batch another shape. Here graphs are packed into batches of one shape. What is left
over is padding, and batch normalisation, pooling and loss have to leave it out.

    - loader = DataLoader(train_set, batch_size=128, shuffle=True)
    + sizes = FixedSizeOptions.for_packing(train_set, num_graphs=33)
    + loader = FixedSizeDataLoader(train_set, fixed_size_options=sizes,
    +                              fixed_size_strategy=FixedSizeStrategy.Pack, shuffle=True)

    - x = self.norm(self.conv(x, edge_index)).relu()              # BatchNorm
    + x = self.norm(self.conv(x, edge_index), nodes_mask).relu()  # MaskedBatchNorm

    - x = global_add_pool(x, batch)
    + x = global_add_pool(x, batch, size=graphs_mask.size(0))

    - loss = F.cross_entropy(out, y)
    + loss = F.cross_entropy(out, torch.where(graphs_mask, y, -100))
"""

import argparse

import torch
import torch.nn.functional as F
from torch_geometric.nn import MLP, GINConv, global_add_pool
from tqdm.auto import trange

from gnn_ipu_helpers import (
    FixedSizeDataLoader,
    FixedSizeOptions,
    FixedSizeStrategy,
    compile_count,
    datasets,
    efficiency,
    poptorch,
)
from gnn_ipu_helpers.porting import MaskedBatchNorm


class GIN(torch.nn.Module):
    """Logits `[num_graphs, num_classes]` and, given labels, the loss over the real graphs."""

    def __init__(self, in_channels, hidden, num_classes, num_layers=3):
        super().__init__()
        widths = [in_channels] + [hidden] * num_layers
        self.convs = torch.nn.ModuleList(
            GINConv(MLP([width, hidden, hidden], norm=None), train_eps=True) for width in widths[:-1]
        )
        self.norms = torch.nn.ModuleList(MaskedBatchNorm(hidden) for _ in self.convs)
        self.head = MLP([hidden, hidden, num_classes], norm=None, dropout=0.5)

    def forward(self, x, edge_index, batch, nodes_mask, graphs_mask, y=None):
        for conv, norm in zip(self.convs, self.norms):
            x = norm(conv(x, edge_index), nodes_mask).relu()
        # The number of graphs, padding included, is the length of their mask: known before anything runs.
        out = self.head(global_add_pool(x, batch, size=graphs_mask.size(0)))
        if y is None:
            return out
        return out, F.cross_entropy(out, torch.where(graphs_mask, y, -100))


def inputs(batch):
    return batch.x, batch.edge_index, batch.batch, batch.nodes_mask, batch.graphs_mask


def main(arguments=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--epochs", type=int, default=100, help="times to see every molecule (100)")
    parser.add_argument("--pack-size", type=int, default=32, help="molecules in a pack, about (32)")
    parser.add_argument("--hidden", type=int, default=32, help="width of the hidden layers (32)")
    parser.add_argument("--lr", type=float, default=0.01, help="learning rate (0.01)")
    arguments = parser.parse_args(arguments)

    torch.manual_seed(0)
    dataset = datasets.mutag().shuffle()  # sorted by class on disk
    test_set, train_set = dataset[:38], dataset[38:]
    sizes = FixedSizeOptions.for_packing(train_set, num_graphs=arguments.pack_size + 1)
    packed = {"fixed_size_options": sizes, "fixed_size_strategy": FixedSizeStrategy.Pack}
    train_loader = FixedSizeDataLoader(train_set, shuffle=True, **packed)
    test_loader = FixedSizeDataLoader(test_set, **packed)

    model = GIN(dataset.num_features, arguments.hidden, dataset.num_classes)
    optimizer = poptorch.optim.Adam(model.parameters(), lr=arguments.lr)
    options = poptorch.Options().randomSeed(0)
    training_model = poptorch.trainingModel(model.train(), options, optimizer)
    for _ in trange(arguments.epochs, desc="Training", leave=False):
        for batch in train_loader:
            training_model(*inputs(batch), batch.y)
    training_model.detachFromDevice()

    inference_model = poptorch.inferenceModel(model.eval())
    hits = 0
    for batch in test_loader:
        is_right = inference_model(*inputs(batch)).argmax(dim=1) == batch.y
        hits += int((is_right & batch.graphs_mask).sum())
    inference_model.detachFromDevice()
    accuracy = hits / len(test_set)
    baseline = test_set.y.bincount().max().item() / len(test_set)
    print(f"test accuracy {accuracy:.1%}; always naming the most frequent class: {baseline:.1%}")
    print(f"{efficiency(train_loader).nodes:.0%} of the nodes are real, ", end="")
    print(f"compilations of the training model: {compile_count(training_model)}")
    return accuracy, baseline


if __name__ == "__main__":
    main()

"""Classify PubMed's papers by sampled neighbourhoods with GraphSAGE, ported from PyG's examples/reddit.py.

    python examples/neighbours.py

A graph that is too large for one step is sampled: some papers, the seeds, and a few neighbours of each.
In PyG every sample has another shape. Here all are padded to one, and `seeds_mask` says which rows the loss
is about.

    - loader = NeighborLoader(data, num_neighbors=[10, 5], input_nodes=seeds, batch_size=256)
    + loader = FixedSizeNeighborLoader(data, num_neighbors=[10, 5], input_nodes=seeds, batch_size=256)

    - y = batch.y[: batch.batch_size]
    - y_hat = model(batch.x, batch.edge_index)[: batch.batch_size]
    - loss = F.cross_entropy(y_hat, y)                             # outside the model
    + labels = torch.where(batch.seeds_mask, batch.y, -100)        # the loss skips what is no seed
    + out, loss = training_model(batch.x, batch.edge_index, labels)
"""

import argparse

import torch
import torch.nn.functional as F
from torch_geometric.nn import SAGEConv
from tqdm.auto import tqdm

from gnn_ipu_helpers import FixedSizeNeighborLoader, compile_count, datasets, poptorch


class GraphSAGE(torch.nn.Module):
    """Logits `[num_nodes, num_classes]` and, given labels, the loss over those that are not -100."""

    def __init__(self, in_channels, hidden, num_classes):
        super().__init__()
        self.conv1 = SAGEConv(in_channels, hidden)
        self.conv2 = SAGEConv(hidden, num_classes)

    def forward(self, x, edge_index, labels=None):
        x = self.conv1(x, edge_index).relu()
        x = F.dropout(x, p=0.5, training=self.training)
        out = self.conv2(x, edge_index)
        if labels is None:
            return out
        return out, F.cross_entropy(out, labels)


def main(arguments=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--epochs", type=int, default=2, help="times to see every seed (2)")
    parser.add_argument("--seeds", type=int, default=5000, help="papers to train on (5000)")
    parser.add_argument("--batch-size", type=int, default=256, help="seeds in a step (256)")
    parser.add_argument("--hidden", type=int, default=64, help="width of the hidden layer (64)")
    parser.add_argument("--lr", type=float, default=0.01, help="learning rate (0.01)")
    arguments = parser.parse_args(arguments)

    torch.manual_seed(0)
    dataset = datasets.pubmed()
    data = dataset[0]
    # Reddit trains on most of its nodes, and PubMed's own split on 60: take those that test nothing.
    free = (~(data.val_mask | data.test_mask)).nonzero().view(-1)
    seeds = free[torch.randperm(len(free))[: arguments.seeds]]
    sampling = {"num_neighbors": [10, 5], "batch_size": arguments.batch_size}
    train_loader = FixedSizeNeighborLoader(data, input_nodes=seeds, shuffle=True, **sampling)
    test_loader = FixedSizeNeighborLoader(
        data,
        input_nodes=data.test_mask,
        fixed_size_options=train_loader.fixed_size_options,
        **sampling,
    )

    model = GraphSAGE(dataset.num_features, arguments.hidden, dataset.num_classes)
    optimizer = poptorch.optim.Adam(model.parameters(), lr=arguments.lr)
    options = poptorch.Options().randomSeed(0)
    training_model = poptorch.trainingModel(model.train(), options, optimizer)
    for epoch in range(arguments.epochs):
        for batch in tqdm(train_loader, desc=f"Epoch {epoch + 1}", leave=False):
            labels = torch.where(batch.seeds_mask, batch.y, -100)
            training_model(batch.x, batch.edge_index, labels)
    training_model.detachFromDevice()

    inference_model = poptorch.inferenceModel(model.eval())
    hits = 0
    for batch in test_loader:
        is_right = inference_model(batch.x, batch.edge_index).argmax(dim=1) == batch.y
        hits += int((is_right & batch.seeds_mask).sum())
    inference_model.detachFromDevice()
    wanted = data.y[data.test_mask]
    accuracy = hits / len(wanted)
    baseline = wanted.bincount().max().item() / len(wanted)
    print(f"test accuracy {accuracy:.1%}; always naming the most frequent class: {baseline:.1%}")
    print(f"compilations of the training model: {compile_count(training_model)}")
    return accuracy, baseline


if __name__ == "__main__":
    main()

"""Twenty steps with every kind of loading; run under torchrun by the tests, and imported by them."""

import json
import os
import sys

import torch
from torch.nn.functional import cross_entropy
from torch_geometric.data import Data
from torch_geometric.nn import SAGEConv, global_add_pool

from gnn_ipu_helpers import (
    FixedSizeClusterLoader,
    FixedSizeDataLoader,
    FixedSizeNeighborLoader,
    FixedSizeOptions,
    FixedSizeStrategy,
    compile_count,
    partition,
    poptorch,
)

STEPS = 20
KINDS = ("padded", "packed", "clusters", "neighbours")


class Net(torch.nn.Module):
    """Classifies nodes, or graphs if it is told how many."""

    def __init__(self):
        super().__init__()
        self.first = SAGEConv(4, 8)
        self.last = torch.nn.Linear(8, 3)

    def forward(self, x, edge_index, y, mask, batch, num_graphs=None):
        h = self.first(x, edge_index).tanh()
        if num_graphs is not None:
            h = global_add_pool(h, batch, size=num_graphs)
        return cross_entropy(self.last(h), torch.where(mask, y, -100))


def random_graph(number, of_graph, num_nodes):
    generator = torch.Generator().manual_seed(number)
    ids = torch.arange(num_nodes)
    ring = torch.stack([ids, ids.roll(1)])
    others = torch.randint(0, num_nodes, (2, num_nodes), generator=generator)
    return Data(
        x=torch.randn(num_nodes, 4, generator=generator),
        edge_index=torch.cat([ring, others], dim=1),
        y=torch.randint(0, 3, (1 if of_graph else num_nodes,), generator=generator),
        number=torch.tensor([number]) if of_graph else ids.clone(),
    )


def mixed():
    """Arguments of a loader that shuffles, in the same way in one process and in several."""
    return {"shuffle": True, "generator": torch.Generator().manual_seed(3)}


def loaders(options):
    """A loader of each kind, with the name of its mask."""
    graphs = [random_graph(number, True, 5 + number % 7) for number in range(90)]
    large = random_graph(0, False, 240)
    sizes = FixedSizeOptions(num_nodes=60, num_edges=120, num_graphs=8)
    return {
        "padded": (
            FixedSizeDataLoader(graphs, batch_size=5, options=options, **mixed()),
            "graphs_mask",
        ),
        "packed": (
            FixedSizeDataLoader(
                graphs,
                fixed_size_options=sizes,
                fixed_size_strategy=FixedSizeStrategy.Pack,
                options=options,
                **mixed(),
            ),
            "graphs_mask",
        ),
        "clusters": (
            FixedSizeClusterLoader(
                partition(large, 24),
                FixedSizeOptions(num_nodes=60, num_edges=120),
                batch_size=2,
                options=options,
                **mixed(),
            ),
            "nodes_mask",
        ),
        "neighbours": (
            FixedSizeNeighborLoader(large, [3, 3], batch_size=10, options=options, **mixed()),
            "seeds_mask",
        ),
    }


def train(kind, options):
    """The weights after `STEPS` steps, and what the first epoch held: graph or node numbers."""
    torch.manual_seed(0)
    loader, mask = loaders(options)[kind]
    model = Net()
    optimiser = poptorch.optim.Adam(model.parameters(), lr=0.01)
    training = poptorch.trainingModel(model.train(), options, optimiser)
    seen, steps = [], 0
    per_graph = mask == "graphs_mask"
    num_graphs = loader.fixed_size_options.num_graphs if per_graph else None
    epoch = 0
    while steps < STEPS:
        for batch in loader:
            real = getattr(batch, mask)
            if epoch == 0:
                seen += batch.number[real].tolist()
            if steps < STEPS:
                training(batch.x, batch.edge_index, batch.y, real, batch.batch, num_graphs)
                steps += 1
        epoch += 1
    assert compile_count(training) == 1
    weights = {name: value.tolist() for name, value in model.state_dict().items()}
    training.destroy()
    return {"weights": weights, "seen": seen, "per_epoch": len(loader)}


def made_options(replicas, iterations):
    options = poptorch.Options().replicationFactor(replicas).deviceIterations(iterations).randomSeed(7)
    options.showCompilationProgressBar(False)
    return options


if __name__ == "__main__":
    folder, iterations = sys.argv[1], int(sys.argv[2])
    results = {kind: train(kind, made_options(1, iterations)) for kind in KINDS}
    with open(f"{folder}/{os.environ['RANK']}.json", "w") as file:
        json.dump(results, file)

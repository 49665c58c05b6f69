"""Train SchNet on QM9's HOMO-LUMO gap; PyG's examples/qm9_pretrained_schnet.py loads one already trained.

    python examples/schnet_qm9.py

SchNet joins all atoms within a radius, and its readout takes the mean over the atoms of a molecule. Its own
code stays. The readout is told how many molecules there are, and the padding atoms lie further apart than the
radius, so that they have no neighbours and no distance of zero. The package replaces the search within the
radius while compiling.

    - model = SchNet(hidden_channels=128, cutoff=10.0, readout="mean")
    + model = SchNet(hidden_channels=128, cutoff=10.0, max_num_neighbors=28)
    + model.readout = SizedMean(num_graphs)

    - loader = DataLoader(dataset, batch_size=256)
    + sizes = FixedSizeOptions.for_packing(dataset, num_graphs=17, pad_positions=2 * CUTOFF)
    + loader = FixedSizeDataLoader(dataset, fixed_size_options=sizes,
    +                              fixed_size_strategy=FixedSizeStrategy.Pack, exclude_keys=TEXT)

    - mae = (model(data.z, data.pos, data.batch).view(-1) - data.y[:, target]).abs().mean()
    + loss = ((predicted - y[:, GAP]).abs() * graphs_mask).sum() / graphs_mask.sum()  # in `forward`
"""

import argparse

import torch
from torch_geometric.nn import MeanAggregation, SchNet
from tqdm.auto import tqdm

from gnn_ipu_helpers import (
    FixedSizeDataLoader,
    FixedSizeOptions,
    FixedSizeStrategy,
    compile_count,
    datasets,
    poptorch,
)

GAP = 4  # the column of `y`, in eV
CUTOFF = 5.0  # Å
TEXT = ["name", "smiles"]  # no tensors: a batch of fixed size leaves them out


class SizedMean(MeanAggregation):
    """A mean over the atoms of each of a known number of molecules: SchNet does not pass the number on."""

    def __init__(self, num_graphs):
        super().__init__()
        self.num_graphs = num_graphs

    def __call__(self, x, index, **kwargs):
        return super().__call__(x, index, **{**kwargs, "dim_size": self.num_graphs})


class GapNet(torch.nn.Module):
    """The gap of every molecule, `[num_graphs]` in eV; given targets, the mean error over the real ones."""

    def __init__(self, num_graphs, mean, std, hidden=64):
        super().__init__()
        # No atom of QM9 has more than 28 others around it, so none is left out.
        self.schnet = SchNet(hidden, hidden, 3, 25, CUTOFF, max_num_neighbors=28, mean=mean, std=std)
        self.schnet.readout = SizedMean(num_graphs)

    def forward(self, z, pos, batch, graphs_mask, y=None):
        predicted = self.schnet(z, pos, batch).view(-1)
        if y is None:
            return predicted
        error = (predicted - y[:, GAP]).abs() * graphs_mask
        return predicted, poptorch.identity_loss(error.sum() / graphs_mask.sum(), reduction="none")


def inputs(batch):
    return batch.z, batch.pos, batch.batch, batch.graphs_mask


def main(arguments=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--epochs", type=int, default=3, help="times to see every molecule (3)")
    parser.add_argument("--molecules", type=int, default=1000, help="train on this many (1000)")
    parser.add_argument("--pack-size", type=int, default=16, help="molecules in a pack, about (16)")
    parser.add_argument("--hidden", type=int, default=64, help="width of the hidden layers (64)")
    parser.add_argument("--lr", type=float, default=0.002, help="learning rate (0.002)")
    arguments = parser.parse_args(arguments)

    torch.manual_seed(0)
    dataset = datasets.qm9().shuffle()
    test_set, train_set = dataset[:200], dataset[200 : 200 + arguments.molecules]
    num_graphs = arguments.pack_size + 1
    sizes = FixedSizeOptions.for_packing(train_set, num_graphs=num_graphs, pad_positions=2 * CUTOFF)
    packed = {"fixed_size_options": sizes, "fixed_size_strategy": FixedSizeStrategy.Pack}
    train_loader, test_loader = (
        FixedSizeDataLoader(graphs, shuffle=shuffle, exclude_keys=TEXT, **packed)
        for graphs, shuffle in ((train_set, True), (test_set, False))
    )
    gaps, wanted = train_set.y[:, GAP], test_set.y[:, GAP]
    model = GapNet(sizes.num_graphs, gaps.mean().item(), gaps.std().item(), arguments.hidden)
    optimizer = poptorch.optim.Adam(model.parameters(), lr=arguments.lr)
    training_model = poptorch.trainingModel(model.train(), optimizer=optimizer)
    for epoch in range(arguments.epochs):
        for batch in tqdm(train_loader, desc=f"Epoch {epoch + 1}", leave=False):
            training_model(*inputs(batch), batch.y)
    training_model.detachFromDevice()

    inference_model = poptorch.inferenceModel(model.eval())
    off = 0.0
    for batch in test_loader:
        errors = (inference_model(*inputs(batch)) - batch.y[:, GAP]).abs()
        off += errors[batch.graphs_mask].sum().item()
    inference_model.detachFromDevice()
    error, baseline = off / len(test_set), (wanted - gaps.mean()).abs().mean().item()
    print(f"mean error {error:.2f} eV; always naming the mean gap: {baseline:.2f} eV")
    print(f"compilations of the training model: {compile_count(training_model)}")
    return error, baseline


if __name__ == "__main__":
    main()

"""Train a graph network on packed QM9 molecules, to predict the gap between HOMO and LUMO.

The script to copy for a training run of your own: validation, early stopping, checkpoints, metrics.

    python examples/train_qm9.py --epochs 5
    torchrun --nproc-per-node 2 examples/train_qm9.py --epochs 5

Stopped by Ctrl-C, SIGTERM or a power cut, it goes on with `--resume` where it was. With several processes
each trains on its share of the molecules, and `--pack-size` molecules make up a batch in each of them.
"""

import argparse
import csv
import os
import signal
import sys
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from torch_geometric.loader import DataLoader
from torch_geometric.nn import MLP, GINEConv, global_mean_pool
from tqdm.auto import tqdm

from gnn_ipu_helpers import (
    FixedSizeDataLoader,
    FixedSizeOptions,
    FixedSizeStrategy,
    datasets,
    efficiency,
    poptorch,
)

GAP = 4  # the column of `y`, in eV
TEXT = ["name", "smiles"]  # no tensors: a batch of fixed size leaves them out
KEPT = 3  # checkpoints


class GapNet(torch.nn.Module):
    """Predicts the gap of every graph in a batch, `[num_graphs]`; given targets, returns the loss instead.

    Args:
        num_features: Width of the node features.
        mean, std: Of the gaps in the training set.
        hidden: Width of the hidden layers.
        num_layers: How many convolutions.
    """

    def __init__(self, num_features, mean=0.0, std=1.0, hidden=64, num_layers=3):
        super().__init__()
        self.mean, self.std = mean, std
        self.embed = torch.nn.Linear(num_features, hidden)
        self.convs, self.norms = torch.nn.ModuleList(), torch.nn.ModuleList()
        for _ in range(num_layers):
            self.convs.append(GINEConv(MLP([hidden, hidden, hidden], norm=None), edge_dim=5))
            self.norms.append(torch.nn.LayerNorm(hidden))
        self.head = MLP([hidden, hidden, 1], norm=None)

    def forward(self, x, edge_index, edge_attr, pos, batch, graphs_mask, y=None):
        source, target = edge_index
        length = (pos[source] - pos[target]).norm(dim=1, keepdim=True)
        edge_attr = torch.cat([edge_attr, length], dim=1)
        x = self.embed(x)
        for conv, norm in zip(self.convs, self.norms):
            x = x + norm(conv(x, edge_index, edge_attr)).relu()
        # The number of graphs, padding included, is the length of their mask: known before anything runs.
        pooled = global_mean_pool(x, batch, size=graphs_mask.shape[0])
        predicted = self.head(pooled).squeeze(1)
        if y is None:
            return predicted * self.std + self.mean
        wanted = (y[:, GAP] - self.mean) / self.std
        weight = graphs_mask / graphs_mask.sum()
        return F.l1_loss(predicted * weight, wanted * weight, reduction="sum")


def arguments(batch):
    return batch.x, batch.edge_index, batch.edge_attr, batch.pos, batch.batch, batch.graphs_mask


# Data


def split(dataset, limit):
    """Training, validation and test set: eight, one and one of ten parts."""
    order = torch.randperm(len(dataset), generator=torch.Generator().manual_seed(0))[:limit]
    tenth = len(order) // 10
    return dataset[order[2 * tenth :]], dataset[order[tenth : 2 * tenth]], dataset[order[:tenth]]


def packed(graphs, sizes, options, generator=None):
    """A loader of packs, shuffled if it has a generator."""
    return FixedSizeDataLoader(
        graphs,
        fixed_size_options=sizes,
        fixed_size_strategy=FixedSizeStrategy.Pack,
        exclude_keys=TEXT,
        options=options,
        shuffle=generator is not None,
        generator=generator,
    )


# Checkpoints


def write_checkpoint(folder, step, state):
    """Write `state` whole or not at all, and forget the oldest beyond those kept."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"step-{step:08d}.pt"
    part = path.with_suffix(".part")
    with open(part, "wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, path)
    for old in sorted(folder.glob("step-*.pt"))[:-KEPT]:
        old.unlink(missing_ok=True)
    return path


def newest_checkpoint(folder):
    """The newest checkpoint that loads; None if there is none."""
    for path in sorted(folder.glob("step-*.pt"), reverse=True):
        try:
            return torch.load(path, weights_only=True)
        except Exception as error:  # whatever a damaged file makes torch say
            print(f"{path} cannot be read ({type(error).__name__}): trying the one before.", file=sys.stderr)
    return None


class StopRequest:
    """Notes a signal to stop, so that the step that is running can end first; a second one stops at once."""

    def __init__(self):
        self.signal = None
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._note)

    def _note(self, number, frame):
        self.signal = number
        signal.signal(number, signal.SIG_DFL)


# Training


class Trainer:
    """One training run: its model, its place in the data, its checkpoints and metrics.

    Args:
        args: The script's arguments.
    """

    def __init__(self, args):
        self.args, self.folder = args, args.output
        torch.manual_seed(args.seed)
        self.options = poptorch.Options().randomSeed(args.seed)
        self.is_first = self.options.Distributed.processId == 0
        self.dataset = datasets.qm9()
        self.train_set, self.valid_set, self.test_set = split(self.dataset, args.molecules)
        gaps = torch.cat([graph.y[:, GAP] for graph in self.train_set])
        self.model = GapNet(self.dataset.num_features, gaps.mean().item(), gaps.std().item(), args.hidden)
        self.order = torch.Generator()
        self.sizes = FixedSizeOptions.for_packing(self.train_set, num_graphs=args.pack_size + 1)
        self.loader = packed(self.train_set, self.sizes, self.options, self.order)
        self.optimizer = poptorch.optim.Adam(self.model.parameters(), lr=args.lr)
        self.epoch = self.step = self.step_of_epoch = 0
        self.best, self.best_epoch, self.best_weights = float("inf"), -1, None
        self.losses, self.metrics = [], []
        if args.resume:
            self._resume()
        self.training_model = poptorch.trainingModel(self.model.train(), self.options, self.optimizer)
        # Compiling fixes the mode of every layer, so it comes before the model is put into the other one.
        batch = next(iter(self.loader))
        self.training_model.compile(*arguments(batch), batch.y)
        alone = poptorch.Options()
        alone.Distributed.disable()
        alone.showCompilationProgressBar(self.is_first)
        self.inference_model = poptorch.inferenceModel(self.model.eval(), alone)

    def run(self):
        """Train until the last epoch, the end of patience or a signal; returns the error on the test set."""
        stop = StopRequest()
        while self.epoch < self.args.epochs and self.epoch - self.best_epoch <= self.args.patience:
            try:
                self._train_epoch(stop)
            except poptorch.Error:
                # Another process stopped before this one: the weights are those of the last step.
                if stop.signal is None:
                    raise
            if stop.signal is not None:
                self._save()
                self._say(f"stopped by signal {stop.signal} after {self.step} steps: --resume goes on.")
                sys.exit(128 + stop.signal)
            self._end_epoch()
        self.model.load_state_dict(self.best_weights)
        error = self.error(self.test_set)
        self._say(f"test error {error:.3f} eV, weights of epoch {self.best_epoch + 1}")
        return error

    def _train_epoch(self, stop):
        # The order of an epoch follows from its number alone, so that a resumed run meets the same batches.
        self.order.manual_seed(self.args.seed + self.epoch)
        began, graphs = time.perf_counter(), 0
        bar = tqdm(
            self.loader,
            desc=f"Epoch {self.epoch + 1}",
            disable=not self.is_first,
            leave=False,
            mininterval=0.5,
        )
        for number, batch in enumerate(bar):
            if number < self.step_of_epoch:
                continue
            loss = float(self.training_model(*arguments(batch), batch.y))
            self.losses.append((loss, int(batch.graphs_mask.sum())))
            graphs += self.losses[-1][1] * self.options.Distributed.numProcesses
            self.step, self.step_of_epoch = self.step + 1, number + 1
            speed = graphs / (time.perf_counter() - began)
            bar.set_postfix(loss=f"{loss:.3f}", graphs_per_s=f"{speed:,.0f}", refresh=False)
            if self.args.checkpoint_every and self.step % self.args.checkpoint_every == 0:
                self._save()
            if stop.signal is not None:
                return
        self.speed = graphs / (time.perf_counter() - began)

    def _end_epoch(self):
        error = self.error(self.valid_set)
        if error < self.best:
            self.best, self.best_epoch = error, self.epoch
            self.best_weights = {name: value.clone() for name, value in self.model.state_dict().items()}
        graphs = sum(count for _, count in self.losses)
        loss = sum(loss * count for loss, count in self.losses) / graphs
        self.epoch, self.step_of_epoch, self.losses = self.epoch + 1, 0, []
        self.metrics.append(
            {
                "epoch": self.epoch,
                "step": self.step,
                "train_loss": round(loss, 5),
                "valid_error_eV": round(error, 5),
                "graphs_per_s": round(self.speed),
            }
        )
        self._save()
        self._say(
            f"epoch {self.epoch}: loss {loss:.3f}, validation error {error:.3f} eV, "
            f"{self.speed:,.0f} graphs/s in {self.options.Distributed.numProcesses} process(es)"
        )
        if self.is_first:
            write_metrics(self.folder, self.metrics)

    def error(self, graphs):
        """The mean absolute error in eV. Every process looks at all graphs, so that all decide alike."""
        if self.training_model.isAttachedToDevice():
            self.training_model.detachFromDevice()  # brings the weights to the host
        total = 0.0
        for batch in packed(graphs, self.sizes, self.inference_model.options):
            off = (self.inference_model(*arguments(batch)) - batch.y[:, GAP]).abs()
            total += off[batch.graphs_mask].sum().item()
        self.inference_model.detachFromDevice()
        return total / len(graphs)

    def _save(self):
        if not self.is_first:
            return
        state = {name: getattr(self, name) for name in self._PLACE}
        state["model"], state["optimizer"] = self.model.state_dict(), self.optimizer.state_dict()
        write_checkpoint(self.folder, self.step, state)

    _PLACE = (
        *("epoch", "step", "step_of_epoch", "losses", "metrics"),
        *("best", "best_epoch", "best_weights"),
    )

    def _resume(self):
        state = newest_checkpoint(self.folder)
        if state is None:
            self._say(f"no checkpoint in {self.folder}: starting from the beginning.")
            return
        self.model.load_state_dict(state.pop("model"))
        self.optimizer.load_state_dict(state.pop("optimizer"))
        vars(self).update(state)
        self._say(f"resumed after {self.step} steps.")

    def _say(self, text):
        if self.is_first:
            tqdm.write(text)


def write_metrics(folder, metrics):
    """`metrics.csv`, and `metrics.svg` where matplotlib is installed."""
    with open(folder / "metrics.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, metrics[0])
        writer.writeheader()
        writer.writerows(metrics)
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        return
    figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
    epochs = [row["epoch"] for row in metrics]
    axes.plot(epochs, [row["valid_error_eV"] for row in metrics], marker="o", markersize=3)
    axes.set(xlabel="epoch", ylabel="validation error (eV)", ylim=(0, None))
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(folder / "metrics.svg")
    plt.close(figure)


def compare(args):
    """Train with plain PyG beside the packed run: same molecules, model, epochs and graphs in a step."""
    trainer = Trainer(args)
    trainer.run()
    graphs_per_step = round(len(trainer.train_set) / len(trainer.loader))
    torch.manual_seed(args.seed)
    model = GapNet(trainer.dataset.num_features, trainer.model.mean, trainer.model.std, args.hidden)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    loader = DataLoader(trainer.train_set, batch_size=graphs_per_step, shuffle=True, exclude_keys=TEXT)
    began = time.perf_counter()
    for epoch in range(len(trainer.metrics)):
        for batch in tqdm(loader, desc=f"PyG, epoch {epoch + 1}", leave=False):
            batch.graphs_mask = torch.ones(batch.num_graphs, dtype=torch.bool)
            optimizer.zero_grad()
            model(*arguments(batch), batch.y).backward()
            optimizer.step()
    speed = len(trainer.metrics) * len(trainer.train_set) / (time.perf_counter() - began)
    trainer.model.load_state_dict(model.state_dict())
    error = trainer.error(trainer.test_set)
    own = trainer.metrics[-1]["graphs_per_s"]
    real = efficiency(trainer.loader)
    print(f"plain PyG: test error {error:.3f} eV, {speed:,.0f} graphs/s, {graphs_per_step} graphs in a step")
    print(f"packed and compiled: {own:,.0f} graphs/s, {own / speed:.1f} times, {real.nodes:.0%} real nodes")


def main(argv=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--epochs", type=int, default=30, help="at most so many (30)")
    add("--patience", type=int, default=5, help="epochs without a better validation error (5)")
    add("--pack-size", type=int, default=128, help="molecules that a pack has room for, about (128)")
    add("--molecules", type=int, default=None, help="use so many of the dataset (all)")
    add("--hidden", type=int, default=64, help="width of the hidden layers (64)")
    add("--lr", type=float, default=0.002, help="learning rate (0.002)")
    add("--seed", type=int, default=0, help="of weights and order (0)")
    add("--output", type=Path, default=Path("build/train_qm9"), help="for checkpoints and metrics")
    add("--checkpoint-every", type=int, default=100, help="steps; 0: only after each epoch (100)")
    add("--resume", action="store_true", help="go on from the newest checkpoint in --output")
    add("--compare", action="store_true", help="train the same model with plain PyG afterwards")
    args = parser.parse_args(argv)
    if args.compare:
        compare(args)
    else:
        Trainer(args).run()


if __name__ == "__main__":
    main()

"""The tests' stand-in for the SDK behaves as PopTorch does, and catches what an IPU would not take."""

import ast
import copy
import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch.utils.data import BatchSampler, SequentialSampler

import gnn_ipu_helpers
from tests.sdk_standin import names, poptorch

STANDIN = Path(poptorch.__file__).parent
PACKAGE = Path(gnn_ipu_helpers.__file__).parent


class Net(torch.nn.Module):
    """A linear layer; in training it returns its loss too."""

    def __init__(self, dropout=0.0):
        super().__init__()
        torch.manual_seed(0)
        self.linear = torch.nn.Linear(3, 2)
        self.dropout = torch.nn.Dropout(dropout)

    def forward(self, x, y=None):
        out = self.linear(self.dropout(x))
        return (out, F.cross_entropy(out, y)) if self.training else out


class Returns(torch.nn.Module):
    """Returns what a function makes of its weight and the input."""

    def __init__(self, function):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3))
        self.function = function

    def forward(self, x):
        return self.function(self.weight, x)


def batch(size=8):
    generator = torch.Generator().manual_seed(1)
    labels = torch.randint(0, 2, (size,), generator=generator)
    return torch.randn(size, 3, generator=generator), labels


# --- what it is


def test_it_has_nothing_of_the_cpu_implementation():
    for path in STANDIN.rglob("*.py"):
        imported = [
            f"{getattr(node, 'module', '')} {alias.name}"
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, (ast.Import, ast.ImportFrom))
            for alias in node.names
        ]
        assert not [name for name in imported if "poptorch_cpu" in name], path
    homes = {getattr(getattr(poptorch, name), "__module__", "") for name in dir(poptorch)}
    assert not [home for home in homes if home.startswith("gnn_ipu_helpers")]


def test_it_has_the_listed_names_and_no_other():
    seen = {name for name in vars(poptorch) if not name.startswith("_")}
    assert seen == set(dir(poptorch))


def listed_signatures():
    """Owner, name and listed parameters of everything that the stand-in runs."""
    found = [(poptorch, name, text) for name, text in names.FUNCTIONS.items()]
    for name, (text, methods) in names.CLASSES.items():
        owner = getattr(poptorch, name, None) or getattr(poptorch.options, name)
        found += [(owner, "__init__", text)] if text else []
        found += [(owner, method, parameters) for method, parameters in methods.items()]
    found += [
        (getattr(poptorch.optim, name), "__init__", text) for name, (text, _) in names.OPTIMISERS.items()
    ]
    return [
        (owner, name, text)
        for owner, name, text in found
        if not hasattr(owner, "is_refusal") and not hasattr(getattr(owner, name), "is_refusal")
    ]


LISTED = listed_signatures()


@pytest.mark.parametrize(
    ("owner", "name", "text"), LISTED, ids=[f"{owner.__name__}.{name}" for owner, name, _ in LISTED]
)
def test_signature_is_the_listed_one_of(owner, name, text):
    member = inspect.getattr_static(owner, name)
    if text == "property":
        assert isinstance(member, property)
    else:
        got = list(inspect.signature(getattr(owner, name)).parameters.values())
        is_method = inspect.isclass(owner) and not isinstance(member, staticmethod)
        wanted = inspect.signature(eval(f"lambda {text[1:-1]}: None", vars(poptorch))).parameters.values()
        assert [(p.name, p.kind, p.default) for p in got[is_method:]] == [
            (p.name, p.kind, p.default) for p in wanted
        ]


# --- loaders


def test_drop_last_is_true_unless_said():
    loader = poptorch.DataLoader(poptorch.Options().deviceIterations(2), range(10), batch_size=2)
    assert [len(batch) for batch in loader] == [4, 4]
    assert loader.combinedBatchSize == 4
    loader = poptorch.DataLoader(poptorch.Options(), range(10), batch_size=4, drop_last=False)
    assert [len(batch) for batch in loader] == [4, 4, 2]


def test_without_a_batch_size_drop_last_has_to_be_said():
    with pytest.raises(ValueError, match="mutually exclusive with drop_last"):
        poptorch.DataLoader(poptorch.Options(), range(3), batch_size=None)
    loader = poptorch.DataLoader(poptorch.Options(), range(3), batch_size=None, drop_last=False)
    assert list(loader) == [0, 1, 2]
    with pytest.raises(AttributeError):
        loader.options  # noqa: B018


def test_loader_that_fails_early_is_deleted_with_a_complaint(monkeypatch):
    class Early(poptorch.DataLoader):
        def __init__(self):
            raise ValueError("not these arguments")

    complaints = []
    monkeypatch.setattr(sys, "unraisablehook", lambda error: complaints.append(str(error.exc_value)))
    with pytest.raises(ValueError, match="not these"):
        Early()
    assert "_accessor" in complaints[0]


def test_batches_of_a_sampler_are_joined():
    sampler = BatchSampler(SequentialSampler(range(10)), 2, drop_last=False)
    options = poptorch.Options().deviceIterations(2)
    loader = poptorch.DataLoader(options, torch.arange(10), batch_sampler=sampler)
    assert [batch.tolist() for batch in loader] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    loader = poptorch.DataLoader(options, torch.arange(10), batch_sampler=sampler, drop_last=False)
    assert [batch.tolist() for batch in loader][-1] == [8, 9]


# PopTorch refuses these before its loader can be deleted in peace.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_batch_sampler_excludes_a_batch_size_and_partitioning():
    with pytest.raises(poptorch.Error, match="mutually exclusive with batch_size, shuffle"):
        poptorch.DataLoader(poptorch.Options(), range(4), batch_sampler=[[0]], shuffle=True)
    options = poptorch.Options()
    options.Distributed.configureProcessId(0, 2)
    with pytest.raises(poptorch.Error, match="auto_distributed_partitioning"):
        poptorch.DataLoader(options, range(4), batch_sampler=[[0]])


def test_processes_get_contiguous_equal_shares():
    shares = []
    for process in range(2):
        options = poptorch.Options()
        options.Distributed.configureProcessId(process, 2)
        shares.append([int(item) for item in poptorch.DataLoader(options, range(9))])
        with pytest.raises(AssertionError, match="randomSeed"):
            poptorch.DataLoader(options, range(9), shuffle=True)
        with pytest.raises(AssertionError, match="batch_size=None"):
            poptorch.DataLoader(options, range(9), batch_size=None, drop_last=False)
    assert shares == [[0, 1, 2, 3], [4, 5, 6, 7]]


# --- wrapping and running


def test_second_training_model_is_refused_until_the_first_is_destroyed():
    model = Net()
    wrapped = poptorch.trainingModel(model)
    assert repr(wrapped).startswith("PoptorchNet(")
    with pytest.raises(RuntimeError, match="already been wrapped"):
        poptorch.trainingModel(wrapped)
    wrapped(*batch())
    wrapped.destroy()
    assert type(model) is Net
    poptorch.trainingModel(model)


def test_wrapping_leaves_the_mode_alone():
    with pytest.raises(poptorch.Error, match="no loss"):
        poptorch.trainingModel(Net().eval())(batch()[0])
    assert len(poptorch.inferenceModel(Net())(*batch())) == 2
    model = Net(dropout=0.5)
    model.dropout.eval()
    wrapped = poptorch.trainingModel(model, optimizer=poptorch.optim.SGD(model.parameters(), lr=0.0))
    assert torch.equal(wrapped(*batch())[0], wrapped(*batch())[0])


def test_mode_is_that_of_the_compilation():
    model = Net(dropout=0.5)
    wrapped = poptorch.inferenceModel(model)
    first, _ = wrapped(*batch())
    model.eval()
    assert not torch.equal(wrapped(*batch())[0], first)


def test_outputs_come_back_in_32_bits_and_as_copies():
    model = Returns(lambda weight, x: (x.argmax(0), x.double(), weight))
    integer, double, weight = poptorch.inferenceModel(model)(torch.randn(4, 3))
    assert (integer.dtype, double.dtype) == (torch.int32, torch.float32)
    model.weight.data.zero_()
    assert weight.tolist() == [1, 1, 1]
    with pytest.raises(poptorch.Error, match="cannot be called explicitly"):
        weight.backward()


def test_inputs_are_those_of_the_compilation():
    wrapped = poptorch.inferenceModel(Net().eval())
    wrapped(torch.randn(4, 3))
    with pytest.raises(poptorch.Error, match=r"Shape mismatch for x: expected torch.Size\(\[4, 3\]\)"):
        wrapped(torch.randn(5, 3))
    with pytest.raises(poptorch.Error, match="Data type mismatch for x"):
        wrapped(torch.zeros(4, 3, dtype=torch.int32))


def test_input_that_requires_a_gradient_is_detached_with_a_warning(caplog):
    model = Returns(lambda weight, x: x * x.requires_grad)
    assert poptorch.inferenceModel(model)(torch.ones(1, requires_grad=True)).tolist() == [0]
    assert "will be detached" in caplog.text


def test_empty_input_is_refused():
    with pytest.raises(poptorch.Error, match=r"Zero-sized .* \[0, 3\]"):
        poptorch.inferenceModel(Net().eval())(torch.zeros(0, 3))


def test_batch_is_a_multiple_of_what_the_options_ask_for():
    wrapped = poptorch.inferenceModel(Net().eval(), poptorch.Options().deviceIterations(3))
    with pytest.raises(AssertionError, match="Invalid batch dimension"):
        wrapped(torch.randn(4, 3))


def test_model_knows_that_it_runs_on_the_device():
    wrapped = poptorch.inferenceModel(Returns(lambda weight, x: x + poptorch.isRunningOnIpu()))
    assert wrapped(torch.zeros(1)).tolist() == [1]
    assert not poptorch.isRunningOnIpu()


def test_device_has_weights_of_its_own():
    model = Net().eval()
    wrapped = poptorch.inferenceModel(model)
    with pytest.raises(poptorch.Error, match="has not been compiled"):
        wrapped.copyWeightsToHost()
    before = wrapped(batch()[0])
    model.linear.weight.data.zero_()
    assert torch.equal(wrapped(batch()[0]), before)
    wrapped.copyWeightsToDevice()
    assert not torch.equal(wrapped(batch()[0]), before)


def test_inference_sees_what_training_learns():
    model = Net()
    training = poptorch.trainingModel(model)
    training(*batch())
    inference = poptorch.inferenceModel(model)
    first = inference(*batch())[0]
    training(*batch())
    assert not torch.equal(inference(*batch())[0], first)


def test_accumulation_is_refused_in_inference():
    options = poptorch.Options()
    options.Training.gradientAccumulation(2)
    with pytest.raises(poptorch.Error, match="gradientAccumulation to 1"):
        poptorch.inferenceModel(Net(), options)


def test_output_modes():
    def outputs(training, mode=None, **options):
        chosen = poptorch.Options().deviceIterations(2)
        chosen = chosen if mode is None else chosen.outputMode(mode, **options)
        wrap = poptorch.trainingModel if training else poptorch.inferenceModel
        return wrap(Net(), chosen)(*batch())

    everything, losses = outputs(training=False)
    assert (everything.shape, losses.shape) == ((8, 2), (2,))
    final, loss = outputs(training=True)
    assert (final.shape, loss.shape) == ((4, 2), ())
    assert torch.equal(outputs(False, poptorch.OutputMode.Final)[0], everything[4:])
    assert torch.equal(outputs(False, poptorch.OutputMode.EveryN, output_return_period=2)[0], everything[4:])
    torch.testing.assert_close(outputs(False, poptorch.OutputMode.Sum)[1], losses.sum().reshape(()))


def test_second_compilation_is_ignored():
    wrapped = poptorch.inferenceModel(Net().eval())
    wrapped.compile(torch.randn(4, 3))
    wrapped.compile(torch.randn(5, 3))
    assert wrapped(torch.randn(4, 3)).shape == (4, 2)


def test_buffers_written_by_replicas_are_not_broadcast():
    class Counts(Net):
        def __init__(self):
            super().__init__()
            self.register_buffer("calls", torch.zeros(1))

        def forward(self, x):
            self.calls = self.calls + 1
            return self.linear(x), self.calls

    with pytest.raises(poptorch.Error, match="broadcastBuffers"):
        poptorch.inferenceModel(Counts(), poptorch.Options().replicationFactor(2))(batch()[0])
    wrapped = poptorch.inferenceModel(Counts())
    assert [int(wrapped(batch()[0])[1]) for _ in range(3)] == [1, 2, 3]


def test_control_flow_takes_lists_and_branches_only_in_inference():
    def loop(weight, x):
        return poptorch.for_loop(3, lambda total: total + weight, [x])[0]

    def branch(weight, x):
        (chosen,) = poptorch.cond(x.sum() > 0, lambda: weight, [], lambda: -weight, [])
        return F.l1_loss(chosen, x[0])

    assert poptorch.inferenceModel(Returns(loop))(torch.zeros(1, 3)).tolist() == [[3, 3, 3]]
    assert poptorch.inferenceModel(Returns(branch))(torch.full((1, 3), -1.0)).item() == 0
    with pytest.raises(poptorch.Error, match="only for inference"):
        poptorch.trainingModel(Returns(branch))(torch.ones(1, 3))
    with pytest.raises(ValueError, match="Object is not list"):
        poptorch.for_loop(1, lambda x: x, (torch.zeros(1),))


def test_device_tells_its_random_state_and_has_no_hardware():
    wrapped = poptorch.inferenceModel(Net(dropout=0.5))
    wrapped(*batch())
    state = wrapped.rng_state
    first, _ = wrapped(*batch())
    wrapped.rng_state = state
    assert torch.equal(wrapped(*batch())[0], first)
    assert set(wrapped.getPerfCounters()) == {"input", "input_complete", "output", "output_complete"}
    assert not poptorch.ipuHardwareIsAvailable()
    with pytest.raises(AssertionError, match="No IPU hardware"):
        poptorch.ipuHardwareVersion()


def test_dropout_leaves_the_random_numbers_of_the_host_alone():
    wrapped = poptorch.inferenceModel(Net(dropout=0.5))
    torch.manual_seed(3)
    wrapped(*batch())
    drawn = torch.rand(1)
    torch.manual_seed(3)
    assert torch.equal(torch.rand(1), drawn)


def test_exported_model_is_loaded_with_its_weights(tmp_path):
    model = Net().eval()
    wrapped = poptorch.inferenceModel(model)
    wrapped.compileAndExport(tmp_path / "model.poptorch", batch()[0])
    loaded = poptorch.load(tmp_path / "model.poptorch")
    assert torch.equal(loaded(batch()[0]), wrapped(batch()[0]))


# --- losses

LOSSES = {
    "none": (lambda weight, x: (x * weight).pow(2).mean(), "no loss"),
    "two": (
        lambda weight, x: (F.mse_loss(x * weight, x), F.l1_loss(x * weight, x)),
        "several losses",
    ),
    "a term added afterwards": (
        lambda weight, x: F.mse_loss(x * weight, x) + weight.pow(2).sum(),
        "changed after it was made",
    ),
    "a mask put on afterwards": (
        lambda weight, x: (F.mse_loss(x * weight, x, reduction="none") * (x > 0)).sum() / 3,
        "changed after it was made",
    ),
}


@pytest.mark.parametrize("case", LOSSES)
def test_loss_is_refused_that_is_not_the_one_trained_on(case):
    function, message = LOSSES[case]
    with pytest.raises(poptorch.Error, match=message):
        poptorch.trainingModel(Returns(function))(torch.randn(4, 3))


@pytest.mark.parametrize("reduction", ["sum", "mean", "none"])
def test_training_starts_from_the_marked_loss(reduction):
    def loss(weight, x):
        return (F.mse_loss(x * weight, 2 * x, reduction="none") * (x > 0)).sum(1)

    model, eager = Returns(lambda w, x: poptorch.identity_loss(loss(w, x), reduction)), Returns(loss)
    x = batch()[0]
    poptorch.trainingModel(model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1))(x)
    value = eager(x)
    (value.mean() if reduction == "mean" else value.sum()).backward()
    torch.testing.assert_close(model.weight.detach(), (eager.weight - 0.1 * eager.weight.grad).detach())


# --- optimisers

SETTINGS = {
    "SGD": {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01, "nesterov": True},
    "Adam": {"lr": 0.1, "weight_decay": 0.01},
    "AdamW": {"lr": 0.1, "betas": (0.8, 0.9)},
    "RMSprop": {"lr": 0.1, "momentum": 0.5, "centered": True},
}


@pytest.mark.parametrize("accumulation", [1, 2])
@pytest.mark.parametrize("kind", SETTINGS)
def test_steps_are_those_of_torch(kind, accumulation):
    model, eager = Net(), Net()
    options = poptorch.Options()
    options.Training.gradientAccumulation(accumulation)
    optimizer = getattr(poptorch.optim, kind)(model.parameters(), **SETTINGS[kind])
    wrapped = poptorch.trainingModel(model, options, optimizer)
    torch_optimizer = getattr(torch.optim, kind)(eager.parameters(), **SETTINGS[kind])
    for _ in range(3):
        wrapped(*batch())
        torch_optimizer.zero_grad()
        eager(*batch())[1].backward()
        torch_optimizer.step()
    for one, other in zip(model.parameters(), eager.parameters()):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_optimiser_that_no_device_has_is_refused():
    model = Net()
    with pytest.raises(AssertionError, match="Unsupported optimizer type"):
        poptorch.trainingModel(model, optimizer=torch.optim.Adagrad(model.parameters()))
    with pytest.raises(ValueError, match="non-amsgrad"):
        poptorch.trainingModel(model, optimizer=torch.optim.Adam(model.parameters(), amsgrad=True))


def test_new_settings_arrive_with_set_optimizer_and_constants_cannot():
    model = Net()
    optimizer = poptorch.optim.SGD(model.parameters(), lr=0.1)
    wrapped = poptorch.trainingModel(model, optimizer=optimizer)
    wrapped(*batch())
    optimizer.param_groups[0]["lr"] = 0.0
    before = model.linear.weight.detach().clone()
    wrapped(*batch())
    assert not torch.equal(model.linear.weight, before)
    wrapped.setOptimizer(optimizer)
    before = model.linear.weight.detach().clone()
    wrapped(*batch())
    assert torch.equal(model.linear.weight, before)
    optimizer.param_groups[0]["momentum"] = 0.9
    with pytest.raises(poptorch.Error, match="momentum"):
        wrapped.setOptimizer(optimizer)
    assert optimizer.state_dict()["ipu_param"] is not None


def test_optimiser_of_another_model_is_refused():
    wrapped = poptorch.trainingModel(Net(), optimizer=poptorch.optim.SGD(Net().parameters(), lr=0.1))
    with pytest.raises(poptorch.Error, match="not the model's"):
        wrapped(*batch())


# --- options


def test_options_can_be_read_until_they_are_frozen():
    options = poptorch.Options().deviceIterations(4).randomSeed(7)
    options.Training.gradientAccumulation(2)
    assert (options.device_iterations, options.replication_factor, options.random_seed) == (4, 1, 7)
    assert options.Training.gradient_accumulation == 2
    assert options.exists("random_seed")
    poptorch.trainingModel(Net(), options)
    with pytest.raises(AttributeError, match="frozen"):
        options.deviceIterations(1)
    assert options.clone().deviceIterations(1).device_iterations == 1
    with pytest.raises(AttributeError, match="Invalid attribute"):
        options.deviceIteration(1)


def test_options_come_from_json_and_the_environment(monkeypatch):
    text = '{"outputMode": "OutputMode.All", "Training.gradientAccumulation": 2}'
    monkeypatch.setenv("POPTORCH_DEFAULT_OPTIONS", text)
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "1")
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "3")
    options = poptorch.Options()
    assert options.output_mode == poptorch.OutputMode.All
    assert options.Training.gradient_accumulation == 2
    assert (options.Distributed.processId, options.Distributed.numProcesses) == (1, 3)


def test_options_refuse_what_a_device_does_not_take():
    options = poptorch.Options().outputMode(poptorch.OutputMode.All, 7)
    assert options.output_return_period == 1
    for wrong in (
        lambda: options.TensorLocations.numIOTiles(33),
        lambda: options.deviceIterations(0),
        lambda: options.deviceIterations("2"),
        lambda: options.outputMode(poptorch.OutputMode.EveryN),
    ):
        with pytest.raises(AssertionError):
            wrong()
    with pytest.raises(AttributeError):
        options.Jit.traceModel(True)


# --- it has teeth


def run_on_standin(code, tmp_path, package=PACKAGE.parent, environment=None):
    """The result of a Python process in which `poptorch` is the stand-in."""
    script = tmp_path / "script.py"
    script.write_text(code)
    environment = {
        **os.environ,
        "GNN_IPU_DATA": "standin",
        "MPLBACKEND": "agg",
        **(environment or {}),
        "PYTHONPATH": os.pathsep.join(map(str, [STANDIN.parent, package, PACKAGE.parent])),
    }
    command = [sys.executable, "-W", "ignore", str(script)]
    return subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True)


EPOCH = """
import torch, gnn_ipu_helpers
from torch_geometric.data import Data
graph = Data(torch.randn(3, 2), torch.zeros(2, 1, dtype=torch.long), y=torch.ones(3, dtype=torch.long))
loader = gnn_ipu_helpers.FixedSizeDataLoader([graph] * 6, batch_size=3)
print(gnn_ipu_helpers.poptorch.__version__, gnn_ipu_helpers.__file__, len(list(loader)))
"""


class WithoutDropLast(ast.NodeTransformer):
    """Takes `drop_last=…` out of the calls that pass `batch_size=None`."""

    def __init__(self):
        self.removed = 0

    def visit_Call(self, call):
        self.generic_visit(call)
        given = {keyword.arg: keyword for keyword in call.keywords}
        size = given.get("batch_size")
        if (
            size
            and isinstance(size.value, ast.Constant)
            and size.value.value is None
            and "drop_last" in given
        ):
            call.keywords.remove(given["drop_last"])
            self.removed += 1
        return call


def test_loader_without_drop_last_fails(tmp_path):
    assert run_on_standin(EPOCH, tmp_path).stdout.split()[-1] == "3"
    mutated = tmp_path / "gnn_ipu_helpers"
    mutated.mkdir()
    for entry in PACKAGE.iterdir():
        if entry.name != "batching":
            (mutated / entry.name).symlink_to(entry)
    (mutated / "batching").mkdir()
    without = WithoutDropLast()
    for path in (PACKAGE / "batching").glob("*.py"):
        tree = without.visit(ast.parse(path.read_text()))
        (mutated / "batching" / path.name).write_text(ast.unparse(tree))
    assert without.removed, "no loader passes drop_last beside batch_size=None"
    result = run_on_standin(EPOCH, tmp_path, package=tmp_path)
    assert "mutually exclusive with drop_last" in result.stderr


# Notebook, beginning of the cell, the fix in it, what stands there instead, beginning of the cell that fails
# without the fix, what is made shorter, and what the failure says.
MUTATIONS = {
    "evaluation mode": (
        "2_a_worked_example",
        *("model.eval()", "model.eval()", "model.train()", "history = "),
        ("range(1, 201)", "range(1, 11)"),
        "TypeError where()",
    ),
    "the mark of a hand-made loss": (
        "4_small_graph_batching_with_packing",
        *("class GinForPacking(", 'poptorch.identity_loss(loss, reduction="none")', "loss", "trained = "),
        ("num_epochs = 40", "num_epochs = 1"),
        "loss changed after it was made",
    ),
}

MUTATED_NOTEBOOK = """
import os
from tests.test_notebook_mutations import NOTEBOOKS, Kernel

os.chdir(NOTEBOOKS)
name, beginning, fix, replacement, failing, shortened, _ = {case!r}
kernel = Kernel(name)
kernel.cells = [cell.replace(*shortened) for cell in kernel.cells]
position, end = kernel.find(beginning), kernel.find(failing) + 1
kernel.run(position)
mutated = kernel.copy(name)
mutated.cells = list(kernel.cells)
mutated.cells[position] = mutated.cells[position].replace(fix, replacement)
assert mutated.cells != kernel.cells, "the fix is not there"
try:
    mutated.run(end)
except Exception as error:
    print("without the fix:", type(error).__name__, *str(error).split())
kernel.run(end)
print("ran with the fix")
"""


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_notebook_fails_without(mutation, tmp_path):
    case = MUTATIONS[mutation]
    result = run_on_standin(MUTATED_NOTEBOOK.format(case=case), tmp_path)
    assert result.stdout.splitlines()[-1] == "ran with the fix", result.stderr
    (failure,) = [line for line in result.stdout.splitlines() if line.startswith("without the fix: ")]
    assert case[-1] in failure


def test_a_loaded_optimiser_state_reaches_the_device():
    def start(state=None):
        model = Net().train()
        optimizer = poptorch.optim.Adam(model.parameters(), lr=0.1)
        if state:
            model.load_state_dict(state[0])
            optimizer.load_state_dict(state[1])
        return model, optimizer, poptorch.trainingModel(model, optimizer=optimizer)

    model, optimizer, wrapped = start()
    for _ in range(3):
        wrapped(*batch())
    wrapped.copyWeightsToHost()
    checkpoint = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
    went_on = [wrapped(*batch())[1].item() for _ in range(3)]
    *_, resumed = start(checkpoint)
    assert [resumed(*batch())[1].item() for _ in range(3)] == pytest.approx(went_on, abs=1e-6)

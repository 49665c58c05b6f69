"""Remedies can be typed in: what they name takes the argument they ask for, and the finding goes away."""

import ast
import inspect
import re
import sys
import textwrap

import pytest
import torch.nn.functional
import torch_geometric.nn as pyg
import torch_geometric.utils
from torch import nn

from gnn_ipu_helpers.porting import check

from . import corpus_inputs as given
from .test_corpus import REFUSED, cases, report_on

VALUES = {
    "size": given.NUM_GRAPHS,
    "batch_size": given.NUM_GRAPHS,
    "dim_size": given.NUM_NODES,
    "num_nodes": given.NUM_NODES,
    "num_classes": given.CLASSES,
    "max_num_nodes": 4,
    "max_num_elements": 4,
    "output_size": given.NUM_NODES,
}


def named(name):
    """The function or class of torch or PyG that a remedy names."""
    for module in (pyg, torch_geometric.utils, torch.nn.functional, torch.Tensor, torch):
        if hasattr(module, name):
            return getattr(module, name)
    raise AssertionError(f"nothing is called {name}")


def takes(thing, argument):
    if isinstance(thing, type):
        return any(argument in inspect.signature(f).parameters for f in (thing.__init__, thing.forward))
    try:
        return argument in inspect.signature(thing).parameters
    except ValueError:  # written in C++
        return argument in (thing.__doc__ or "")


@cases(REFUSED)
def test_what_a_remedy_names_takes_what_it_asks_for(model, inputs, kwargs, training):
    built = model()
    for finding in report_on(model, inputs, kwargs, training).findings:
        called = re.match(r"pass .+ to (\w+)", finding.remedy)
        if called:
            arguments = re.findall(r"(\w+)=<", finding.remedy.split(" to ")[0])
            for argument in arguments:
                assert takes(named(called[1]), argument), finding.remedy
        created = re.match(r"create `(?P<path>.+)`, a (?P<kind>\w+), with (?P<argument>\w+)=", finding.remedy)
        if created:
            layer = eval(created["path"], {"model": built})
            assert type(layer).__name__ == created["kind"]
            hands_on = isinstance(layer, pyg.models.basic_gnn.BasicGNN)
            assert takes(type(layer), created["argument"]) or hands_on, finding.remedy
        setting = re.match(r"set (?P<path>.+)\.(?P<attribute>\w+) = False", finding.remedy)
        if setting:
            assert hasattr(eval(setting["path"], {"model": built}), setting["attribute"]), finding.remedy


def rewritten(model, finding, built):
    """The model's class with the arguments of the remedy typed into the call that it names."""
    name = re.match(r"pass .+ to (\w+)", finding.remedy)[1]
    arguments = re.findall(r"(\w+)=<", finding.remedy.split(" to ")[0])
    lines, first = inspect.getsourcelines(model)
    tree = ast.parse(textwrap.dedent("".join(lines)))
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call) or first + call.lineno - 1 != finding.line:
            continue
        function = call.func
        used = getattr(function, "attr", getattr(function, "id", ""))
        layer = getattr(built, used, None) if isinstance(function, ast.Attribute) else None
        globals_ = vars(sys.modules[model.__module__])
        meant = getattr(globals_.get(used), "__name__", used)
        if name in (used, meant) or type(layer).__name__ == name:
            call.keywords += [ast.keyword(a, ast.Constant(VALUES[a])) for a in arguments]
            break
    else:
        raise AssertionError(f"no call of {name} in line {finding.line}")
    tree.body[0].decorator_list = []
    namespace = dict(globals_)
    exec(compile(ast.fix_missing_locations(tree), "<typed in>", "exec"), namespace)
    return namespace[model.__name__]


CALLS = [
    "GraphClassifier",
    "SeveralReadouts",
    "AggregationModule",
    "RecurrentReadout",
    "RepeatByCount",
    "OwnMessagePassing",
    "OwnAttention",
    "DegreeFeatures",
    "DenseAdjacency",
    "NormalisedPerGraph",
    "DenseWithoutLargest",
    "AliasedSoftmax",
    "DegreeThroughItsModule",
    "RepeatsByCount",
    "SetsWithoutSize",
    "ScattersWithoutSize",
    "GraphNormed",
]


@pytest.mark.parametrize("case", [c for c in REFUSED if c[0].__name__ in CALLS], ids=lambda c: c[0].__name__)
def test_typing_a_remedy_in_makes_its_finding_go_away(case):
    model, inputs, kwargs, training = case
    before = report_on(*case).findings
    typed = rewritten(model, before[0], model())
    after = check(typed().train(training), *inputs, **kwargs).findings

    assert len(after) == len(before) - 1
    assert before[0].remedy not in [finding.remedy for finding in after] or len(before) > 1


@pytest.mark.parametrize(
    "case",
    [
        c
        for c in REFUSED
        if c[0].__name__ in ("DefaultGCN", "WrappedReadyMadeModel", "autoencoder", "WithinOneType")
    ],
    ids=lambda c: c[0].__name__,
)
def test_layers_created_as_the_remedy_says_have_no_finding(case):
    model, inputs, kwargs, training = case
    built = model().train(training)
    for finding in report_on(*case).findings:
        layer = eval(re.search(r"`(.+)`", finding.remedy)[1], {"model": built})
        for part in layer.modules():  # a ready-made model hands the setting on to its layers
            if hasattr(part, "add_self_loops"):
                part.add_self_loops = False

    assert check(built, *inputs, **kwargs).ok


def test_a_setting_of_a_layer_inside_a_library_model_can_be_typed_in():
    (case,) = [c for c in REFUSED if c[0].__name__ == "ReadyMadeWithLoopsInside"]
    model = case[0]().eval()
    for finding in report_on(*case).findings:
        exec(re.match(r"set (.+ = False)", finding.remedy)[1], {"model": model})

    assert check(model, *case[1]).ok


def test_the_way_out_of_schnet_can_be_typed_in():
    (case,) = [c for c in REFUSED if c[0].__name__ == "Potential"]
    model = case[0]().eval()
    (finding,) = report_on(*case).findings
    body = re.search(r"has `def (.+)`", finding.remedy)[1].replace("<number of graphs>", "3")
    head, statements = body.split(": ", 1)
    source = f"class Sized(SumAggregation):\n    def {head}:\n"
    source += "".join(f"        {statement.strip()}\n" for statement in statements.split(";"))
    names = {"SumAggregation": pyg.SumAggregation, "model": model}
    exec(source.replace("super()", "super(Sized, self)"), names)
    exec("model.schnet.readout = Sized()", names)

    assert "model.schnet.readout = Sized()" in finding.remedy
    assert check(model, *case[1]).ok


def test_the_way_out_of_gps_can_be_typed_in():
    (case,) = [c for c in REFUSED if c[0].__name__ == "GraphTransformer"]
    model = case[0]().eval()
    (finding,) = report_on(*case).findings
    settings = re.search(r"with (norm='layer_norm') and (norm_kwargs={.+?})", finding.remedy)
    model.gps = eval(
        f"GPSConv(8, model.gps.conv, heads=2, {settings[1]}, {settings[2]})", {**vars(pyg), "model": model}
    )

    assert check(model, *case[1]).ok


def test_an_argument_that_is_passed_already_is_not_asked_for():
    class Dense(nn.Module):
        def forward(self, x, batch):
            rows, mask = torch_geometric.utils.to_dense_batch(x, batch, batch_size=3, max_num_nodes=4)
            return rows[mask]

    (finding,) = check(Dense().eval(), given.x, given.batch).findings

    assert finding.operation == "boolean indexing"
    assert finding.source == "return rows[mask]"

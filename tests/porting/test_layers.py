"""The page on supported layers: complete, covering what PopTorch Geometric documents, true for a sample."""

import copy
import re

import pytest
import torch
import torch_geometric.nn as pyg
from torch import nn
from torch_geometric.nn.models import dimenet

from gnn_ipu_helpers.porting import check, static_compile
from tools import layers
from tools.layer_cases import BEFORE_AND_AFTER, GROUPS, SHOWN_AT, GivenTriplets

PAGE = layers.read_page(layers.PAGE.read_text())
CASES = {case.name: case for cases in GROUPS.values() for case in cases}
BASES = {"MessagePassing", "Aggregation", "KGEModel"}
ON_THE_HOST = {"KNNIndex", "L2KNNIndex", "MIPSKNNIndex", "ApproxL2KNNIndex", "ApproxMIPSKNNIndex"}
NOT_LAYERS = {"to_captum_model", "to_captum_input", "captum_output_to_dicts"}
SAMPLE = [
    "SAGEConv",
    "GCNConv",
    "GATv2Conv",
    "GINEConv",
    "RGCNConv",
    "HGTConv",
    "DynamicEdgeConv",
    "SplineConv",
    "HypergraphConv",
    "HeteroConv",
    "MeanAggregation",
    "LSTMAggregation",
    "InstanceNorm",
    "HeteroBatchNorm",
    "global_mean_pool",
    "TopKPooling",
    "knn_graph",
    "DenseGCNConv",
    "HeteroLinear",
    "JumpingKnowledge",
    "DistMult",
    "to_hetero",
]


@pytest.mark.filterwarnings("ignore")  # PyG's own, from its eager layers
@pytest.mark.parametrize("name", SAMPLE)
def test_the_page_says_what_the_layer_does(name):
    assert layers.examine(CASES[name]).status == PAGE[name]


def test_every_layer_that_poptorch_geometric_documents_is_static():
    missing = {name for name in layers.POPTORCH_GEOMETRIC if PAGE.get(name) in (None, layers.NOT_STATIC)}
    assert missing == set()


@pytest.mark.parametrize(
    "module", ["conv", "aggr", "norm", "pool", "unpool", "dense", "models", "kge", "attention"]
)
def test_every_layer_of_pyg_is_on_the_page(module):
    names = set(getattr(pyg, module).__all__) - BASES - ON_THE_HOST - NOT_LAYERS
    assert names - set(PAGE) == set()


def test_every_case_is_on_the_page_and_nothing_else():
    assert set(PAGE) == set(CASES)


def test_a_page_reads_back_as_written():
    outcomes = {
        "Convolutions": [
            layers.Outcome("GCNConv", layers.WITH_ARGUMENT, "add_self_loops=False"),
            layers.Outcome("SAGEConv", layers.AS_IT_IS),
            layers.Outcome("MFConv", layers.REPLACED),
        ],
        "Models": [layers.Outcome("SchNet", layers.NOT_STATIC, "the number of graphs")],
    }
    expected = {outcome.name: outcome.status for group in outcomes.values() for outcome in group}
    assert layers.read_page(layers.write_page(outcomes)) == expected


def test_rows_that_are_not_static_say_what_to_write_instead():
    text = layers.PAGE.read_text().split("## Not static")[1].split("## On padded batches")[0]
    rows = [line.strip("|").split(" | ") for line in text.splitlines() if line.startswith("| `")]

    assert len(rows) == sum(status == layers.NOT_STATIC for status in PAGE.values())
    assert [row[0] for row in rows if not row[2].strip()] == []
    assert "Error" not in text
    shown = dict(re.findall(r"\| `(\w+)` \|.+before and after as for `(\w+)` below", text))
    assert shown == SHOWN_AT
    assert {"VGAE", "SchNet", "DimeNet", "TopKPooling"} <= set(shown)


@pytest.mark.parametrize("example", BEFORE_AND_AFTER, ids=lambda example: example[0])
@pytest.mark.parametrize("is_after", [False, True], ids=["before", "after"])
def test_the_examples_before_and_after_are_what_they_say(example, is_after):
    name, (*_, before, after), call = example
    sample = layers.Sample()
    model = (after if is_after else before)().train(name == "VGAE")

    assert check(model, *(getattr(sample, name) for name in call)).ok is is_after
    assert f"class {(after if is_after else before).__name__}(" in layers.PAGE.read_text()


@pytest.mark.filterwarnings("ignore")
def test_dimenet_with_given_triplets_computes_what_dimenet_computes(monkeypatch):
    """PyG's own lists triplets with torch-sparse: here a loop over all pairs of edges does."""
    sample, model = layers.Sample(), GivenTriplets().eval()
    edges = sample.edge_index.t().tolist()
    found = [
        (i, j, k, first, second)
        for first, (k, middle) in enumerate(edges)
        for second, (j, i) in enumerate(edges)
        if middle == j and k != i
    ]
    i, j, k, kj, ji = torch.tensor(found).t()
    listed = (sample.edge_index[1], sample.edge_index[0], i, j, k, kj, ji)
    monkeypatch.setattr(dimenet, "radius_graph", lambda *args, **kwargs: sample.edge_index)
    monkeypatch.setattr(dimenet, "triplets", lambda *args, **kwargs: listed)
    for block in model.dimenet.output_blocks:  # which start at zero
        torch.nn.init.normal_(block.lin.weight)
    expected = model.dimenet(sample.z, sample.pos, sample.batch)

    given = (sample.z, sample.pos, sample.batch, sample.edge_index, sample.triplets)
    assert expected.abs().max() > 0.01
    torch.testing.assert_close(model(*given), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["AttentiveFP", "SGFormer"])
def test_an_example_with_sizes_computes_what_the_layer_computes(name):
    """SGFormer's self-loops aside, which its example takes from the data."""
    (_, (*_, before, after), call) = next(example for example in BEFORE_AND_AFTER if example[0] == name)
    sample, one, other = layers.Sample(), before().eval(), after().eval()
    other.load_state_dict(one.state_dict())
    for conv in one.net.graph_conv.convs if name == "SGFormer" else ():
        conv.add_self_loops = False
    given = [getattr(sample, attribute) for attribute in call]

    torch.testing.assert_close(other(*given), one(*given))


@pytest.mark.filterwarnings("ignore")
def test_the_page_says_of_padded_batches_what_the_check_says():
    assert layers.padded_norms() in layers.PAGE.read_text()


def test_a_difference_in_training_is_seen():
    class Drifting(nn.Module):
        """Computes something else once it has been compiled."""

        def __init__(self):
            super().__init__()
            self.lin = nn.Linear(8, 8)

        def forward(self, x):
            return self.lin(x) * (2.0 if torch.compiler.is_compiling() else 1.0)

    model = layers.WithLoss(Drifting())
    assert "step 0: loss" in layers.training_difference(model, [torch.ones(3, 8)], {})
    assert layers.training_difference(layers.WithLoss(nn.Linear(8, 8)), [torch.ones(3, 8)], {}) is None


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own, from inductor
def test_a_replaced_layer_trains_with_inductor_as_in_eager():
    torch.manual_seed(0)
    case = CASES["RGCNConv"]
    model = layers.WithLoss(case.build())
    twin = copy.deepcopy(model)
    sample = layers.Sample()
    inputs = [getattr(sample, name) for name in case.call]
    compiled = static_compile(twin, "inductor")
    loss, other = model(*inputs), compiled(*inputs)
    loss.backward()
    other.backward()
    torch.testing.assert_close(other, loss)
    for (name, one), (_, two) in zip(model.named_parameters(), twin.named_parameters()):
        torch.testing.assert_close(two.grad, one.grad, rtol=1e-4, atol=1e-5, msg=name)

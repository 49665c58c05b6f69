"""The optional limit on the device's memory."""

import pytest
import torch
from torch.nn.functional import cross_entropy
from torch_geometric.nn import GCNConv

from gnn_ipu_helpers import check, poptorch, porting
from gnn_ipu_helpers.porting.experiments import peak_bytes

WIDTH, ROWS = 1000, 5000


class Wide(torch.nn.Module):
    """`hidden`, by far its largest tensor, takes 20 MB."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(10, WIDTH)
        self.last = torch.nn.Linear(WIDTH, 3)

    def forward(self, x, y=None):
        hidden = self.first(x).relu()
        out = self.last(hidden)
        return out if y is None else (out, cross_entropy(out, y))


class Citations(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = GCNConv(500, 64, add_self_loops=False)

    def forward(self, x, edge_index, y):
        return cross_entropy(self.conv(x, edge_index), y)


@pytest.fixture
def rows():
    return torch.randn(ROWS, 10), torch.randint(0, 3, (ROWS,))


def test_without_a_limit_anything_is_accepted(rows):
    assert check(Wide(), *rows).ok


def test_a_graph_within_the_limit_is_accepted(rows):
    with porting.device_memory(900):
        assert check(Wide(), *rows).ok


def test_check_refuses_a_graph_beyond_the_limit_with_both_numbers(rows):
    with porting.device_memory(50):
        report = check(Wide(), *rows)
    (finding,) = report.findings
    assert finding.operation == "out of memory"
    assert "the device has 50 MB" in finding.reason
    assert "need 6" in finding.reason
    assert "FixedSizeClusterLoader" in finding.remedy
    assert finding.line
    assert finding.file.endswith("test_memory.py")


def test_the_executor_refuses_what_check_refuses(rows):
    model = poptorch.trainingModel(Wide())
    with porting.device_memory(50):
        assert str(check(Wide(), *rows)).startswith("Wide: does not fit the device.")
        with pytest.raises(poptorch.Error, match=r"does not fit the device\.(.|\n)*the device has 50 MB"):
            model(*rows)
    assert not model.isCompiled()
    model(*rows)  # the limit is over


def test_training_needs_more_than_inference(rows):
    with porting.device_memory(50):
        assert not check(Wide(), *rows).ok
        assert check(Wide().eval(), rows[0]).ok


def test_a_large_graph_does_not_fit_and_a_part_of_it_does():
    nodes, edges = 100_000, 2_000_000
    edge_index = torch.randint(0, nodes, (2, edges))
    with porting.device_memory(900):
        whole = check(Citations(), torch.empty(nodes, 500), edge_index, torch.zeros(nodes, dtype=torch.long))
        part = check(
            Citations(), torch.zeros(500, 500), edge_index[:, :9000] % 500, torch.zeros(500, dtype=torch.long)
        )
    assert [finding.operation for finding in whole.findings] == ["out of memory"]
    assert part.ok


def test_the_peak_is_what_eager_operations_hold_at_once(rows):
    """Against a sum by hand: inputs and weights, then the hidden layer before and after its relu."""
    peaks = {}

    def backend(graph_module, inputs):
        peaks["inference"] = peak_bytes(graph_module, inputs)
        return graph_module.forward

    model = Wide().eval()
    torch.compile(model, backend=backend)(rows[0])
    weights = sum(parameter.numel() for parameter in model.parameters()) * 4
    by_hand = rows[0].numel() * 4 + weights + 2 * ROWS * WIDTH * 4
    assert peaks["inference"] == by_hand


def test_a_limit_that_is_no_size_is_refused():
    with pytest.raises(ValueError, match="got 0"), porting.device_memory(0):
        pass

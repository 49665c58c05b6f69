"""A call that the compiled graph cannot serve is refused at once, with what helps."""

import numpy
import pytest
import torch
from torch_geometric.data import Data

from gnn_ipu_helpers import check, compile_count
from gnn_ipu_helpers import poptorch_cpu as poptorch

from .models import GCN, Classifier, classified


def test_other_shape_of_a_graph_names_argument_shapes_and_loader(graph):
    x, edge_index, y = graph
    trained = poptorch.trainingModel(GCN())
    trained(x, edge_index, y)
    expected = (
        r"Shape mismatch for edge_index: expected torch.Size\(\[2, 60\]\) but got torch.Size\(\[2, 50\]\). "
        r".*FixedSizeDataLoader"
    )
    with pytest.raises(poptorch.Error, match=expected):
        trained(x, edge_index[:, :50], y)
    trained(x, edge_index, y)
    assert compile_count(trained) == 1


def test_other_shape_of_a_batch_points_at_drop_last():
    trained = poptorch.trainingModel(Classifier())
    trained(*classified(8))
    with pytest.raises(
        poptorch.Error, match=r"for x: expected .*\[8, 5\].*got .*\[5, 5\].*DataLoader.*drop_last=True"
    ):
        trained(*classified(5))


def test_other_shape_inside_a_data_object_is_named():
    class Model(GCN):
        def forward(self, data):
            return super().forward(data.x, data.edge_index)

    inferred = poptorch.inferenceModel(Model())
    inferred(Data(torch.randn(5, 8), torch.randint(5, (2, 9))))
    with pytest.raises(poptorch.Error, match=r"for data\.edge_index: .*\[2, 7\]"):
        inferred(Data(torch.randn(5, 8), torch.randint(5, (2, 7))))


def test_other_shape_inside_dicts_is_named_by_its_key():
    class Model(torch.nn.Module):
        def forward(self, edges):
            return {key: value * 2 for key, value in edges.items()}

    key = ("actor", "plays", "movie")
    inferred = poptorch.inferenceModel(Model())
    assert inferred({key: torch.ones(2, 3)})[key].sum() == 12
    with pytest.raises(poptorch.Error, match=r"edges\[\('actor', 'plays', 'movie'\)\]: .*\[2, 4\]"):
        inferred({key: torch.ones(2, 4)})


def test_other_dtype_is_refused():
    trained = poptorch.trainingModel(Classifier())
    x, y = classified(4)
    trained(x, y)
    with pytest.raises(
        poptorch.Error,
        match=r"for x: expected torch.float32 but got torch.float64. Pass x.to\(torch.float32\)",
    ):
        trained(x.double(), y)


def test_wrong_number_of_arguments_shows_the_signature():
    trained = poptorch.trainingModel(Classifier())
    x, y = classified(4)
    with pytest.raises(poptorch.Error, match=r"Classifier.forward\(x, y\).*Mandatory parameter y missing"):
        trained(x)
    trained(x, y)
    with pytest.raises(poptorch.Error, match="too many positional arguments"):
        trained(x, y, y)
    with pytest.raises(poptorch.Error, match="unexpected keyword argument 'z'"):
        trained(x, y, z=y)


def test_arguments_by_name_and_by_position_are_the_same_call():
    trained = poptorch.trainingModel(Classifier())
    x, y = classified(4)
    trained(x, y)
    trained(y=y, x=x)
    assert compile_count(trained) == 1


def test_optional_argument_may_not_appear_later(graph):
    x, edge_index, y = graph
    inferred = poptorch.inferenceModel(GCN())
    inferred(x, edge_index)
    with pytest.raises(poptorch.Error, match="Type mismatch for y: expected None but got Tensor"):
        inferred(x, edge_index, y)


def test_tensor_on_another_device_is_refused():
    trained = poptorch.trainingModel(Classifier())
    x, y = classified(4)
    with pytest.raises(poptorch.Error, match=r"x is on the device 'meta'.*x.cpu\(\)"):
        trained(x.to("meta"), y)
    trained(x, y)
    with pytest.raises(poptorch.Error, match="y is on the device 'meta'"):
        trained(x, y.to("meta"))


def test_sparse_tensor_is_refused():
    inferred = poptorch.inferenceModel(GCN())
    adjacency = torch.eye(5).to_sparse()
    with pytest.raises(poptorch.Error, match="edge_index is sparse .torch.sparse_coo"):
        inferred(torch.randn(5, 8), adjacency)


def test_model_that_computes_nothing_is_refused():
    class Model(torch.nn.Module):
        def forward(self, value):
            return value

    with pytest.raises(poptorch.Error, match="computes nothing"):
        poptorch.inferenceModel(Model())(3)


class _Scale(torch.nn.Module):
    def forward(self, x, factor):
        return x if factor is None else x * factor


@pytest.mark.parametrize("value", [2, 0.5, True, None])
def test_value_other_than_a_tensor_is_part_of_the_graph(value):
    inferred = poptorch.inferenceModel(_Scale())
    x = torch.ones(3)
    expected = x if value is None else x * value
    assert torch.equal(inferred(x, value), expected)
    assert torch.equal(inferred(x, value), expected)
    with pytest.raises(
        poptorch.Error, match=f"Value mismatch for factor: expected {value!r} but got 7. It is not a tensor"
    ):
        inferred(x, 7)


def test_what_is_not_static_is_refused_with_findings():
    class Model(torch.nn.Module):
        def forward(self, x, mask):
            return x[mask].sum()

    inferred = poptorch.inferenceModel(Model())
    with pytest.raises(poptorch.Error, match="not a static graph") as caught:
        inferred(torch.ones(4), torch.tensor([True, False, True, True]))
    (finding,) = caught.value.findings
    assert finding.source == "return x[mask].sum()"
    assert __file__.endswith(finding.file)
    assert not inferred.isCompiled()


class _Pair:
    def __init__(self, first, second):
        self.first, self.second = first, second


class _Unknown:
    def __init__(self, first, second):
        self.first, self.second = first, second


class _PairParser(poptorch.ICustomArgParser):
    def yieldTensors(self, struct):
        yield struct.first
        yield struct.second

    def reconstruct(self, original_structure, tensor_iterator):
        return _Pair(next(tensor_iterator), next(tensor_iterator))


def test_registered_types_are_taken_apart_and_put_together():
    class Model(torch.nn.Module):
        def forward(self, pair):
            return pair.first - pair.second

    poptorch.registerCustomArgParser(_Pair, _PairParser())
    inferred = poptorch.inferenceModel(Model(), poptorch.Options().deviceIterations(2))
    pair = _Pair(torch.tensor([1.0, 2.0]), torch.tensor([5.0, 7.0]))
    assert inferred(pair).tolist() == [-4, -5]
    pair.second = torch.tensor([0.0, 0.0])
    assert inferred(pair).tolist() == [1, 2]


def test_model_must_be_a_module():
    with pytest.raises(poptorch.Error, match="wraps a torch.nn.Module .got function"):
        poptorch.inferenceModel(lambda x: x)


def test_options_must_be_options():
    with pytest.raises(poptorch.Error, match="options must be a poptorch.Options .got dict"):
        poptorch.inferenceModel(Classifier(), {})


def test_array_is_refused():
    with pytest.raises(poptorch.Error, match=r"factor is a numpy ndarray.*torch.as_tensor\(factor\)"):
        poptorch.inferenceModel(_Scale())(torch.ones(3), numpy.ones(3))


def test_parameters_without_a_size_are_refused():
    inferred = poptorch.inferenceModel(torch.nn.Sequential(torch.nn.LazyLinear(2)))
    with pytest.raises(
        poptorch.Error, match="without a size yet: 0.weight, 0.bias. Call the model itself once"
    ):
        inferred(torch.ones(3, 4))


def test_object_that_the_graph_cannot_fill_in_is_refused():
    class Model(torch.nn.Module):
        def forward(self, x):
            return {"pair": _Unknown(x + 1, x)}

    with pytest.raises(
        poptorch.Error, match="returns a _Unknown: return tensors, or tuples, lists and dicts"
    ):
        poptorch.inferenceModel(Model())(torch.ones(2))


class _Counter(torch.nn.Module):
    def __init__(self, in_place):
        super().__init__()
        self.in_place = in_place
        self.register_buffer("total", torch.zeros(()))

    def forward(self, x):
        if self.in_place:
            self.total += x.sum()
        else:
            self.total = self.total + x.sum()
        return x * 2


def test_buffer_updated_in_place_is_kept_from_call_to_call():
    model = _Counter(in_place=True)
    inferred = poptorch.inferenceModel(model)
    for _ in range(3):
        inferred(torch.ones(2))
    assert model.total == 0  # an inference model's buffers come to the host when asked for
    inferred.copyWeightsToHost()
    assert model.total == 6


def test_reassigned_buffer_is_refused():
    model = _Counter(in_place=False)
    with pytest.raises(poptorch.Error, match=r"Buffer total is reassigned.*self.total.copy_\(src\)"):
        poptorch.inferenceModel(model)(torch.ones(2))
    assert model.total == 0


def test_forward_may_fill_the_containers_it_is_given():
    class Model(torch.nn.Module):
        def forward(self, x_dict, pair):
            x_dict["movie"] = x_dict["movie"] * 2
            pair[0] += 1
            return x_dict["movie"] + pair[0]

    model = poptorch.inferenceModel(Model())
    for start in (1.0, 2.0):
        movie, first = torch.full((2,), start), torch.zeros(2)
        x_dict = {"movie": movie}
        assert check(Model().eval(), x_dict, [first.clone()]).ok
        assert torch.equal(model(x_dict, [first]), 2 * movie + 1)
        assert x_dict["movie"] is movie
        assert torch.equal(first, torch.ones(2))


class _Forwards(torch.nn.Module):
    def forward(self, d, *rest, **named):
        z = named["z"]
        return d["x"] + sum(rest) + (z[0] if isinstance(z, tuple) else z)


OTHER_CALLS = {
    "Missing arguments: x. In d": (({"y": 1},), {"z": 1}),
    "Unexpected arguments: w. In d": (({"x": 1, "y": 1, "w": 1},), {"z": 1}),
    "Missing arguments: z. In the call": (({"x": 1, "y": 1},), {}),
    "Number of positional arguments mismatch: expected 1 .* got 2": (({"x": 1, "y": 1}, 1), {"z": 1}),
    "Length mismatch for z: expected 1 elements but got 2": (({"x": 1, "y": 1},), {"z": [1, 1]}),
    "Type mismatch for z: expected Tensor but got None": (({"x": 1, "y": 1},), {"z": None}),
    "Type mismatch for d: expected dict but got tuple": (([1],), {"z": 1}),
}


@pytest.mark.parametrize("message", OTHER_CALLS)
def test_call_of_another_structure_says_where_it_differs(message):
    def as_tensors(value):
        if isinstance(value, dict):
            return {key: as_tensors(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return type(value)(map(as_tensors, value))
        return None if value is None else torch.ones(2)

    inferred = poptorch.inferenceModel(_Forwards())
    z = (torch.ones(2),) if "Length" in message else torch.ones(2)
    inferred({"x": torch.ones(2), "y": torch.ones(2)}, z=z)
    args, kwargs = as_tensors(OTHER_CALLS[message])
    with pytest.raises(poptorch.Error, match=message):
        inferred(*args, **kwargs)


class _KeywordOnly(torch.nn.Module):
    def forward(self, x, *, zeta, **more):
        return x + zeta + more["alpha"]


def test_other_shape_is_named_among_keywords():
    inferred, ones = poptorch.inferenceModel(_KeywordOnly()), torch.ones(1)
    inferred(ones, zeta=ones, alpha=ones)
    with pytest.raises(poptorch.Error, match="mismatch for zeta"):
        inferred(ones, zeta=torch.ones(2), alpha=ones)


def test_attribute_that_a_data_object_lacks_is_named():
    class Model(torch.nn.Module):
        def forward(self, data):
            return data.x * 2

    inferred = poptorch.inferenceModel(Model())
    inferred(Data(torch.ones(3, 2), weight=torch.ones(3)))
    with pytest.raises(poptorch.Error, match="Missing arguments: weight. In data"):
        inferred(Data(torch.ones(3, 2)))
    with pytest.raises(poptorch.Error, match="Unexpected arguments: mask. In data"):
        inferred(Data(torch.ones(3, 2), weight=torch.ones(3), mask=torch.ones(3)))
    with pytest.raises(poptorch.Error, match="Type mismatch for data.weight: expected Tensor but got tuple"):
        inferred(Data(torch.ones(3, 2), weight=[torch.ones(3)]))

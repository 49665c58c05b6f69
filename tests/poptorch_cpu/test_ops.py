"""PopTorch's operations inside a model."""

import logging

import pytest
import torch

from gnn_ipu_helpers import poptorch_cpu as poptorch


class _Function(torch.nn.Module):
    """A model that is one function."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *tensors):
        return self.function(*tensors)


def _compiled(function, *tensors):
    """The result of a function inside a compiled model, which is also its result in eager PyTorch."""
    result = poptorch.inferenceModel(_Function(function))(*tensors)
    torch.testing.assert_close(result, function(*tensors), check_dtype=False)
    return result


def test_for_loop_repeats_its_body():
    (result,) = _compiled(lambda x: poptorch.for_loop(5, lambda y: y * 2, [x]), torch.ones(2))
    assert result.tolist() == [32, 32]


def test_for_loop_carries_several_tensors():
    def fibonacci(a, b):
        return poptorch.for_loop(6, lambda x, y: (y, x + y), [a, b])

    assert [tensor.item() for tensor in _compiled(fibonacci, torch.tensor(0.0), torch.tensor(1.0))] == [8, 13]


def test_for_loop_refuses_a_body_that_changes_shapes():
    with pytest.raises(poptorch.Error, match=r"these shapes and types: .*\[2\].*got .*\[4\]"):
        poptorch.for_loop(2, lambda x: torch.cat([x, x]), [torch.ones(2)])
    with pytest.raises(ValueError, match=".inputs. to be a list of tensors. .Object is not list. Got Tensor"):
        poptorch.for_loop(2, lambda x: x, torch.ones(2))


@pytest.mark.parametrize(("condition", "expected"), [(True, 3.0), (False, -1.0)])
def test_cond_chooses_by_the_value_of_a_tensor(condition, expected):
    def choose(flag, x):
        return poptorch.cond(flag, lambda y: [y + 2], [x], lambda y: [y - 2], [x])

    (result,) = _compiled(choose, torch.tensor([condition]), torch.ones(()))
    assert result.item() == expected


def test_cond_is_chosen_anew_in_every_call():
    model = poptorch.inferenceModel(
        _Function(lambda flag, x: poptorch.cond(flag, lambda y: y, [x], lambda y: -y, [x])[0])
    )
    x = torch.ones(())
    assert [model(torch.tensor([flag]), x).item() for flag in (True, False, True)] == [1, -1, 1]


def test_cond_refuses_branches_of_different_shapes():
    model = _Function(lambda flag, x: poptorch.cond(flag, lambda y: y, [x], lambda y: y[:1], [x]))
    with pytest.raises(poptorch.Error, match="cond: the else branch"):
        poptorch.inferenceModel(model)(torch.tensor([True]), torch.ones(2))


@pytest.mark.parametrize("inputs", [(torch.ones(2),), torch.ones(2), [1.0]])
def test_loops_and_branches_take_lists_of_tensors(inputs):
    with pytest.raises(ValueError, match="list of tensors"):
        poptorch.for_loop(2, lambda x: x, inputs)
    with pytest.raises(ValueError, match="list of tensors"):
        poptorch.cond(torch.tensor([True]), lambda x: x, inputs, lambda x: x, inputs)


def test_body_gets_copies():
    def grow(x):
        x += 1
        return x

    x = torch.ones(2)
    model = poptorch.inferenceModel(_Function(lambda x: poptorch.for_loop(3, grow, [x])[0]))
    assert model(x).tolist() == [4, 4]
    assert x.tolist() == [1, 1]


@pytest.mark.parametrize(
    "operation",
    [
        lambda x: poptorch.for_loop(2, lambda y: y * 2, [x])[0],
        lambda x: poptorch.cond(x.sum() > 0, lambda y: y, [x], lambda y: -y, [x])[0],
    ],
)
def test_loops_and_branches_are_for_inference_only(operation):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(2, 2)

        def forward(self, x):
            return poptorch.identity_loss(operation(self.linear(x)), reduction="sum")

    with pytest.raises(poptorch.Error, match=r"poptorch\.\w+\(\) is only supported in inference"):
        poptorch.trainingModel(Model())(torch.ones(1, 2))


def test_code_knows_that_it_is_being_compiled_for_the_device():
    model = _Function(lambda x: x + 1 if poptorch.isRunningOnIpu() else x - 1)
    assert model(torch.zeros(())) == -1
    wrapped = poptorch.inferenceModel(model)
    assert wrapped(torch.zeros(())) == wrapped(torch.zeros(())) == 1
    assert not poptorch.isRunningOnIpu()


def test_dynamic_slice_begins_where_a_tensor_says():
    model = poptorch.inferenceModel(_Function(lambda x, start: poptorch.dynamic_slice(x, 1, start, 4, 2)))
    x = torch.arange(16.0).reshape(2, 8)
    for start in (0, 3, 4):
        assert torch.equal(model(x, torch.tensor(start)), x[:, start : start + 4 : 2])


def test_dynamic_update_writes_where_a_tensor_says():
    model = poptorch.inferenceModel(
        _Function(lambda x, source, start: poptorch.dynamic_update(x, source, 1, start, 2))
    )
    x, source = torch.zeros(2, 5), torch.ones(2, 2)
    for start in (0, 3):
        expected = x.clone()
        expected[:, start : start + 2] = 1
        assert torch.equal(model(x, source, torch.tensor(start)), expected)


def test_dynamic_slice_and_update_go_on_from_the_beginning():
    x = torch.arange(8.0)
    cut = poptorch.inferenceModel(_Function(lambda x, start: poptorch.dynamic_slice(x, 0, start, 4, 1)))
    assert cut(x, torch.tensor(6)).tolist() == [6, 7, 0, 1]
    put = poptorch.inferenceModel(_Function(lambda x, y, at: poptorch.dynamic_update(x, y, 0, at, 2)))
    assert put(x, -torch.ones(2), torch.tensor(15)).tolist() == [-1, 1, 2, 3, 4, 5, 6, -1]


@pytest.mark.parametrize(
    ("size", "message"),
    [
        (3, r"The size of the slice \(3\) must be a factor of the slicing dimension \(8\)"),
        (0, "The start and end of a slice must be different"),
        (-2, "Taking a slice of a tensor with the end less than the start is not supported"),
    ],
)
def test_dynamic_slice_refuses_the_size(size, message):
    with pytest.raises(poptorch.Error, match=message):
        poptorch.dynamic_slice(torch.arange(8.0), 0, torch.tensor(1), size, 1)


def test_dynamic_update_refuses_another_dimensionality_or_type():
    x, start = torch.zeros(2, 4), torch.tensor(0)
    with pytest.raises(poptorch.Error, match=r"same dimensionality. \(2\) vs \(1\)"):
        poptorch.dynamic_update(x, torch.ones(4), 0, start, 1)
    with pytest.raises(poptorch.Error, match="same dtype. .torch.float32 vs torch.int32"):
        poptorch.dynamic_update(x, torch.ones(1, 4).int(), 0, start, 1)


def test_multi_conv_in_another_is_refused():
    def nested(x):
        with poptorch.MultiConv(), poptorch.MultiConv():
            return x + 1

    with pytest.raises(poptorch.Error, match="Nested poptorch.MultiConv is not supported"):
        poptorch.inferenceModel(_Function(nested))(torch.ones(2))
    assert torch.equal(_in_one_multi_conv(torch.ones(2)), torch.full((2,), 2.0))  # the error left none open
    poptorch.inferenceModel(_Function(_in_one_multi_conv))(torch.ones(2))


def _in_one_multi_conv(x):
    with poptorch.MultiConv():
        return x + 1


def test_blocks_are_shown_and_taken_out_again():
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Linear(3, 1))
    poptorch.BeginBlock(model[1], "second", ipu_id=1)
    text = repr(poptorch.inferenceModel(model))
    assert text.startswith("PoptorchSequential(\n  (0): Linear(in_features=2")
    assert "(1): BeginBlock(user_id=second, ipu_id=1) Linear(in_features=3" in text
    poptorch.removeBlocks(model)
    assert poptorch.module_repr(model) == repr(model)


class _TwoStages(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(2, 2), torch.nn.Linear(2, 1)
        poptorch.BeginBlock(self.first, ipu_id=0)

    def forward(self, x):
        x = self.first(x)
        with poptorch.Block(ipu_id=1):
            return poptorch.identity_loss(self.second(x), reduction="mean")


@pytest.mark.parametrize("strategy", [poptorch.PipelinedExecution, poptorch.ShardedExecution])
@pytest.mark.parametrize("accumulation", [2, 3])
def test_training_in_a_pipeline_needs_a_mini_batch_for_each_stage(strategy, accumulation):
    options = poptorch.Options().setExecutionStrategy(strategy())
    options.Training.gradientAccumulation(accumulation)
    trained = poptorch.trainingModel(_TwoStages(), options)
    if strategy is poptorch.PipelinedExecution and accumulation < 3:
        with pytest.raises(poptorch.Error, match=r"number of pipeline stages \(3\) when using .*Got 2"):
            trained(torch.ones(accumulation, 2))
    else:
        trained(torch.ones(accumulation, 2))


def test_tensor_that_is_not_printed_is_said_to_be_so(caplog):
    model = poptorch.inferenceModel(_Function(lambda x: poptorch.ipu_print_tensor(x + 1, "sum") * 2))
    assert model(torch.ones(1)) == 4
    assert caplog.text.count("ipu_print_tensor(..., 'sum') prints on an IPU only") == 1


UNCHANGING = {
    "nop": poptorch.nop,
    "ipu_print_tensor": poptorch.ipu_print_tensor,
    "recomputationCheckpoint": poptorch.recomputationCheckpoint,
    "set_available_memory": lambda x: poptorch.set_available_memory(x, 0.3),
    "set_overlap_for_input": lambda x: poptorch.set_overlap_for_input(x, poptorch.OverlapMode.NoOverlap),
    "set_overlap_for_output": lambda x: poptorch.set_overlap_for_output(x, poptorch.OverlapMode.NoOverlap),
}


@pytest.mark.parametrize("name", UNCHANGING)
def test_operation_without_effect_returns_its_tensor(name):
    x = torch.randn(3)
    assert torch.equal(_compiled(UNCHANGING[name], x), x)


def test_serialized_product_is_the_product():
    left, right = torch.randn(4, 6), torch.randn(6, 2)
    mode = poptorch.MatMulSerializationMode.ReducingDim
    torch.testing.assert_close(poptorch.serializedMatMul(left, right, mode, factor=2), left @ right)


def test_blocks_and_scopes_leave_a_model_as_it_is():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first = poptorch.BeginBlock(torch.nn.Linear(3, 3), "first", ipu_id=0)
            self.second = torch.nn.Linear(3, 3)

        @poptorch.BlockFunction("third", ipu_id=1)
        def last(self, x):
            return x.relu()

        def forward(self, x):
            x = self.first(x)
            poptorch.Block.start("second", ipu_id=1)
            with poptorch.NameScope("name"), poptorch.MultiConv().planType(
                poptorch.MultiConvPlanType.Parallel
            ):
                x = self.second(x)
            with poptorch.Block("last"):
                return self.last(x)

    model = Model()
    x = torch.randn(2, 3)
    torch.testing.assert_close(poptorch.inferenceModel(model)(x), model(x))
    assert list(model.state_dict()) == ["first.weight", "first.bias", "second.weight", "second.bias"]


def test_farthest_points_are_sampled_from_each_group():
    points = torch.tensor([[0.0], [1.0], [10.0], [4.0], [0.0], [3.0]])
    assert _compiled(lambda x: poptorch.fps(x, [0, 4, 6], ratio=0.5), points).tolist() == [0, 2, 4]


def test_nearest_point_is_found_in_the_same_batch():
    x, y = torch.tensor([[0.0], [9.0], [0.0]]), torch.tensor([[1.0], [8.0], [5.0]])
    assert _compiled(poptorch.nearest, x, y).tolist() == [0, 1, 0]
    batch_x, batch_y = torch.tensor([0, 0, 1]), torch.tensor([0, 0, 1])
    assert poptorch.nearest(x, y, batch_x, batch_y).tolist() == [0, 1, 2]


def test_part_for_the_host_is_called():
    part = poptorch.CPU(lambda x: x + 1, "part")
    assert part(torch.ones(1)).item() == 2


def test_what_only_an_ipu_has_says_what_to_do_instead():
    x = torch.ones(1)
    with pytest.raises(
        poptorch.Error, match="custom operation com.acme.Cube needs an IPU.*torch's operations"
    ):
        poptorch.custom_op([x], "Cube", "com.acme", 1, [x])
    with pytest.raises(poptorch.Error, match="ctc_beam_search_decoder needs an IPU"):
        poptorch.ctc_beam_search_decoder(x, x)


def test_there_is_no_ipu():
    assert not poptorch.ipuHardwareIsAvailable()
    with pytest.raises(AssertionError, match="no IPU on this system"):
        poptorch.ipuHardwareVersion()
    assert not poptorch.isRunningOnIpu()


def test_log_level_is_set_by_name_or_number():
    logger = logging.getLogger("poptorch")
    before = logger.level
    poptorch.setLogLevel("ERR")
    assert not logger.isEnabledFor(logging.WARNING)
    poptorch.setLogLevel(1)
    assert logger.isEnabledFor(logging.DEBUG)
    with pytest.raises(ValueError, match="Unknown log level: LOUD. Valid values are DEBUG"):
        poptorch.setLogLevel("LOUD")
    with pytest.raises(ValueError, match="Invalid log level integer 5"):
        poptorch.setLogLevel(5)
    logger.setLevel(before)

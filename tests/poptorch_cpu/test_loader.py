"""``poptorch.DataLoader`` hands out combined batches, shards them and loads ahead."""

import pytest
import torch
from torch.utils.data import IterableDataset, TensorDataset

from gnn_ipu_helpers import poptorch_cpu as poptorch

MODES = list(poptorch.DataLoaderMode)


def _numbers(count=20):
    return TensorDataset(torch.arange(float(count)))


def _options(iterations=1, accumulation=1, replicas=1):
    options = poptorch.Options().deviceIterations(iterations).replicationFactor(replicas)
    options.Training.gradientAccumulation(accumulation)
    return options


def _batches(loader):
    return [batch[0].tolist() for batch in loader]


class _Stream(IterableDataset):
    def __init__(self, count):
        self.count = count

    def __iter__(self):
        worker = torch.utils.data.get_worker_info()
        first, step = (0, 1) if worker is None else (worker.id, worker.num_workers)
        return iter(torch.arange(float(self.count))[first::step])


def test_combined_batch_size_is_the_product():
    loader = poptorch.DataLoader(_options(2, 3, 2), _numbers(100), batch_size=2)
    assert loader.combinedBatchSize == 24
    assert [batch[0].shape[0] for batch in loader] == [24] * 4
    assert len(loader) == 4


def test_incomplete_batch_is_dropped_unless_asked_for():
    options = poptorch.Options()
    assert _batches(poptorch.DataLoader(options, _numbers(5), batch_size=2)) == [[0, 1], [2, 3]]
    kept = poptorch.DataLoader(options, _numbers(5), batch_size=2, drop_last=False)
    assert _batches(kept) == [[0, 1], [2, 3], [4]]


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_gives_the_same_batches_epoch_after_epoch(mode):
    loader = poptorch.DataLoader(_options(2), _numbers(9), batch_size=2, mode=mode)
    assert _batches(loader) == _batches(loader) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert len(loader) == 2
    loader.terminate()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("num_workers", [0, 2])
def test_same_seed_gives_the_same_shuffled_batches(mode, num_workers):
    runs = []
    for _ in range(2):
        torch.manual_seed(1)
        loader = poptorch.DataLoader(
            _options(2), _numbers(), batch_size=3, shuffle=True, mode=mode, num_workers=num_workers
        )
        runs.append([_batches(loader), _batches(loader)])
        loader.terminate()
    assert runs[0] == runs[1]
    first, second = runs[0]
    assert first != second
    assert sorted(sum(first, [])) != sum(first, [])


class _Noisy(TensorDataset):
    def __getitem__(self, index):
        return torch.rand(())


def test_loading_ahead_leaves_the_random_numbers_of_the_model_alone():
    torch.manual_seed(1)
    before = torch.get_rng_state()
    mode = poptorch.DataLoaderMode.Async
    loader = poptorch.DataLoader(_options(), _Noisy(torch.zeros(6)), batch_size=2, shuffle=True, mode=mode)
    for _ in range(2):
        list(loader)
    loader.terminate()
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_keeps_the_incomplete_batch_where_asked_for(mode):
    loader = poptorch.DataLoader(_options(), _numbers(5), batch_size=2, drop_last=False, mode=mode)
    assert _batches(loader) == [[0, 1], [2, 3], [4]]
    assert len(loader) == 3
    loader.terminate()


def test_loading_ahead_may_be_broken_off_and_begun_again():
    loader = poptorch.DataLoader(
        poptorch.Options(), _numbers(), batch_size=2, mode=poptorch.DataLoaderMode.Async
    )
    assert next(iter(loader))[0].tolist() == [0, 1]
    assert len(_batches(loader)) == 10
    loader.terminate()


def test_error_of_a_dataset_reaches_the_loop():
    class Broken(TensorDataset):
        def __getitem__(self, index):
            if index == 4:
                raise RuntimeError("sample 4 is broken")
            return super().__getitem__(index)

    loader = poptorch.DataLoader(
        poptorch.Options(), Broken(torch.arange(8.0)), mode=poptorch.DataLoaderMode.Async
    )
    batches = iter(loader)
    assert [next(batches)[0].item() for _ in range(4)] == [0, 1, 2, 3]
    with pytest.raises(RuntimeError, match="sample 4 is broken"):
        next(batches)


def test_rebatching_puts_the_shares_of_workers_together():
    loader = poptorch.DataLoader(
        poptorch.Options(),
        _Stream(10),
        batch_size=4,
        num_workers=2,
        mode=poptorch.DataLoaderMode.AsyncRebatched,
        rebatched_worker_size=1,
    )
    batches = [batch.tolist() for batch in loader]
    assert [len(batch) for batch in batches] == [4, 4]
    assert len(set(sum(batches, []))) == 8
    loader.terminate()


def test_rebatching_needs_its_mode_and_a_fitting_size():
    with pytest.raises(ValueError, match="AsyncRebatched"):
        poptorch.DataLoader(poptorch.Options(), _numbers(), rebatched_worker_size=1)
    with pytest.raises(ValueError, match=r"1\.\.2, the combined batch size .got 3"):
        poptorch.DataLoader(
            poptorch.Options(),
            _numbers(),
            batch_size=2,
            mode=poptorch.DataLoaderMode.AsyncRebatched,
            rebatched_worker_size=3,
        )


@pytest.mark.parametrize("drop_last", [True, False])
def test_batches_of_a_batch_sampler_are_joined_for_a_call(drop_last):
    named = [[3, 1], [5, 7], [9, 0], [2, 4], [6, 8]]
    loader = poptorch.DataLoader(_options(2), _numbers(), batch_sampler=named, drop_last=drop_last)
    expected = [[3, 1, 5, 7], [9, 0, 2, 4]] + ([] if drop_last else [[6, 8]])
    assert _batches(loader) == expected
    assert len(loader) == len(expected)


@pytest.mark.parametrize("beside", [{"batch_size": 2}, {"shuffle": True}])
def test_batch_sampler_excludes_batch_size_and_shuffle(beside):
    with pytest.raises(poptorch.Error, match="mutually exclusive with batch_size, shuffle"):
        poptorch.DataLoader(_options(), _numbers(), batch_sampler=[[0]], **beside)


def test_incomplete_batch_cannot_be_dropped_without_a_batch_size():
    with pytest.raises(ValueError, match="drop_last"):
        poptorch.DataLoader(_options(), _numbers(), batch_size=None)
    loader = poptorch.DataLoader(_options(), _numbers(3), batch_size=None, drop_last=False)
    assert [item[0].item() for item in loader] == [0, 1, 2]


def test_loader_that_was_refused_leaves_without_a_sound(capsys):
    with pytest.raises(AssertionError):
        poptorch.DataLoader(None, _numbers())
    import gc

    gc.collect()
    assert "ignored" not in capsys.readouterr().err


def test_collate_function_is_used():
    loader = poptorch.DataLoader(_options(), _numbers(4), batch_size=2, collate_fn=len)
    assert list(loader) == [2, 2]


def _distributed(process, seed=None):
    options = poptorch.Options()
    options.Distributed.configureProcessId(process, 3)
    return options if seed is None else options.randomSeed(seed)


@pytest.mark.parametrize("shuffle", [False, True])
def test_processes_share_the_dataset_without_overlap(shuffle):
    loaders = [
        poptorch.DataLoader(_distributed(p, 1), _numbers(11), batch_size=1, shuffle=shuffle) for p in range(3)
    ]
    for _ in range(2):
        shares = [sum(_batches(loader), []) for loader in loaders]
        assert [len(share) for share in shares] == [3, 3, 3]
        assert len(set(sum(shares, []))) == 9
    assert [len(loader) for loader in loaders] == [3, 3, 3]


def test_shares_of_processes_are_contiguous_and_of_one_length():
    shares = [_batches(poptorch.DataLoader(_distributed(p), _numbers(), batch_size=2)) for p in range(3)]
    assert shares == [[[0, 1], [2, 3], [4, 5]], [[6, 7], [8, 9], [10, 11]], [[12, 13], [14, 15], [16, 17]]]
    kept = [
        sum(_batches(poptorch.DataLoader(_distributed(p), _numbers(8), drop_last=False)), [])
        for p in range(3)
    ]
    assert kept == [[0, 1, 2], [3, 4, 5], [6, 7]]


def test_what_cannot_be_shared_out_is_refused():
    with pytest.raises(poptorch.Error, match="mutually exclusive with auto_distributed_partitioning"):
        poptorch.DataLoader(_distributed(0), _numbers(), batch_sampler=[[0]])
    with pytest.raises(AssertionError, match="not supported for an IterableDataset"):
        poptorch.DataLoader(_distributed(0), _Stream(9), batch_size=3)
    with pytest.raises(AssertionError, match="batch_size=None is not allowed"):
        poptorch.DataLoader(_distributed(0), _numbers(), batch_size=None, drop_last=False)


def test_shuffling_across_processes_needs_a_seed():
    with pytest.raises(AssertionError, match=r"options.randomSeed\(seed\)"):
        poptorch.DataLoader(_distributed(0), _numbers(), shuffle=True)


def test_partition_can_be_left_to_the_user():
    loader = poptorch.DataLoader(_distributed(1), _numbers(4), auto_distributed_partitioning=False)
    assert sum(_batches(loader), []) == [0, 1, 2, 3]


def test_options_are_frozen_and_required():
    options = poptorch.Options()
    assert poptorch.DataLoader(options, _numbers()).options is options
    with pytest.raises(AttributeError, match="a DataLoader already uses these options"):
        options.deviceIterations(2)
    with pytest.raises(AssertionError, match="must be a poptorch.Options .got TensorDataset"):
        poptorch.DataLoader(_numbers(), 2)


def test_accessor_loads_any_iterable_ahead():
    accessor = poptorch.AsynchronousDataAccessor([1, 2, 3], early_preload=True)
    assert len(accessor) == 3
    assert list(accessor) == list(accessor) == [1, 2, 3]
    accessor.terminate()


def test_accessor_for_one_pass_refuses_a_second():
    accessor = poptorch.AsynchronousDataAccessor([1, 2], load_indefinitely=False)
    assert list(accessor) == [1, 2]
    with pytest.raises(poptorch.Error, match="only once"):
        iter(accessor)


class _Counted(torch.utils.data.IterableDataset):
    def __iter__(self):
        return iter(torch.arange(10.0))

    def __len__(self):
        return 10


def test_length_over_an_iterable_dataset_is_known_when_rebatched():
    mode = poptorch.DataLoaderMode.AsyncRebatched
    loader = poptorch.DataLoader(poptorch.Options(), _Counted(), batch_size=4, mode=mode)
    assert len(loader) == len(list(loader)) == 2


def test_batch_sampler_decides_the_batches_when_rebatched_too():
    samples, mode = torch.arange(6.0), poptorch.DataLoaderMode.AsyncRebatched
    batches = torch.utils.data.BatchSampler(range(6), 2, drop_last=False)
    options = poptorch.Options().deviceIterations(2)
    loader = poptorch.DataLoader(options, samples, batch_sampler=batches, mode=mode, drop_last=False)
    assert [batch.tolist() for batch in loader] == [[0, 1, 2, 3], [4, 5]]

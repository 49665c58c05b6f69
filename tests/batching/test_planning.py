"""Which graphs go into which batch: padding, streams, packs, and combined batches."""

import time

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gnn_ipu_helpers import datasets, efficiency, poptorch
from gnn_ipu_helpers.batching import FixedSizeDataLoader, FixedSizeOptions, FixedSizeStrategy
from gnn_ipu_helpers.batching.graphs import EDGE, NODE, read_graphs
from gnn_ipu_helpers.batching.packing import assign_packs, fewest_packs
from gnn_ipu_helpers.batching.planning import Budgets, Plan, combined, pack, pad_to_max, stream_pack

from .graphs import graph, hetero_graph, real_dataset


def budgets_of(nodes, edges, num_nodes, num_edges, num_graphs):
    counts = {(NODE, None): torch.tensor(nodes), (EDGE, None): torch.tensor(edges)}
    return Budgets.of(counts, FixedSizeOptions(num_nodes, num_edges, num_graphs), keep_edge=True)


@st.composite
def sized(draw, max_graphs=60):
    sizes = draw(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 12)), min_size=1, max_size=max_graphs))
    budgets = budgets_of(
        *map(list, zip(*sizes)),
        num_nodes=draw(st.integers(10, 60)),
        num_edges=draw(st.integers(13, 60)),
        num_graphs=draw(st.integers(2, 12)),
    )
    order = torch.tensor(draw(st.permutations(range(len(sizes)))))
    return order, budgets


def qm9_sizes(number):
    """Nodes, edges and 1 of graphs that are sized like those of QM9, ``[G, 3]``."""
    sizes = torch.stack(list(read_graphs(datasets.qm9()).counts.values()), dim=1).numpy()
    chosen = sizes[np.random.default_rng(0).integers(len(sizes), size=number)]
    return np.concatenate([chosen, np.ones((number, 1), dtype=np.int64)], axis=1)


def test_pad_to_max_takes_graphs_as_they_come():
    plan = pad_to_max(torch.tensor([3, 1, 0, 2, 4]), 2)
    assert [batch.tolist() for batch in plan.mini_batches()] == [[3, 1], [0, 2], [4]]


def test_drop_last_drops_what_does_not_fill_a_batch():
    plan = pad_to_max(torch.arange(5), 2, drop_last=True)
    assert [batch.tolist() for batch in plan.mini_batches()] == [[0, 1], [2, 3]]


@given(sized())
def test_stream_pack_closes_a_batch_only_when_the_next_graph_does_not_fit(case):
    order, budgets = case
    plan = stream_pack(order, budgets)
    assert torch.equal(plan.graphs, order)
    batches = plan.mini_batches()
    for batch, following in zip(batches, [*batches[1:], None]):
        total = budgets.sizes[batch].sum(0)
        assert (total <= budgets.room).all()
        assert len(batch) <= budgets.num_graphs
        if following is not None:
            left = budgets.room - total - budgets.sizes[following[0]]
            padding_graphs = budgets.num_graphs - len(batch) - 1
            assert padding_graphs < 0 or (left < 0).any() or (left < padding_graphs).any()
        if len(batch) > 1:
            assert (budgets.room - total >= budgets.num_graphs - len(batch)).all()


def test_stream_pack_leaves_a_node_and_an_edge_for_each_padding_graph():
    budgets = budgets_of([4, 4, 4], [4, 4, 4], 12, 99, 6)
    assert stream_pack(torch.arange(3), budgets).sizes == [2, 1]
    assert stream_pack(torch.arange(3), budgets_of([4, 4, 4], [4, 4, 4], 10, 99, 6)).sizes == [1, 1, 1]


@given(sized())
def test_packs_hold_every_graph_once_within_all_budgets(case):
    order, budgets = case
    plan = pack(order, budgets)
    assert sorted(plan.graphs.tolist()) == sorted(order.tolist())
    for batch in plan.mini_batches():
        assert 0 < len(batch) <= budgets.num_graphs
        assert (budgets.sizes[batch].sum(0) <= budgets.room).all()


@given(sized())
def test_graphs_of_a_pack_keep_the_order_given(case):
    order, budgets = case
    place = {graph: at for at, graph in enumerate(order.tolist())}
    for batch in pack(order, budgets).mini_batches():
        places = [place[graph] for graph in batch.tolist()]
        assert places == sorted(places)


@pytest.mark.parametrize(
    "room",
    [
        (511, 9999, 999),
        (511, 1063, 39),
        (511, 1059, 28),
        (255, 9999, 99),
        (255, 531, 17),
        (255, 527, 14),
    ],
)
def test_packs_of_molecules_are_close_to_the_fewest_possible(room):
    sizes, room = qm9_sizes(20_000), np.array(room)
    fewest = fewest_packs(sizes, room)
    assert assign_packs(sizes, room).max() + 1 <= 1.005 * fewest
    assert assign_packs(sizes, room, thorough=True).max() + 1 <= fewest + 1


@pytest.mark.parametrize("num_nodes", [256, 512])
def test_a_dataset_of_full_size_is_planned_in_two_seconds(num_nodes):
    sizes = qm9_sizes(130_000)
    counts = {(NODE, None): torch.from_numpy(sizes[:, 0]), (EDGE, None): torch.from_numpy(sizes[:, 1])}
    budgets = Budgets.of(counts, FixedSizeOptions.for_packing_sizes(counts, num_nodes), keep_edge=True)
    fewest = fewest_packs(sizes, np.append(budgets.room.numpy(), budgets.num_graphs))
    for thorough, most in ((False, 1.005 * fewest), (True, fewest + 1)):
        order = torch.arange(130_000) if thorough else torch.randperm(130_000)
        start = time.process_time()
        assert len(pack(order, budgets, thorough).sizes) <= most
        assert time.process_time() - start <= 2


@given(st.lists(st.integers(0, 12), min_size=1, max_size=7), st.integers(12, 30))
def test_no_plan_needs_fewer_packs_than_the_bound(sizes, room):
    bound = fewest_packs(np.array(sizes)[:, None], np.array([room]))
    assert bound >= -(-sum(sizes) // room)
    # Every way to put them into one pack fewer is tried, largest first.
    packs = [[0] * (bound - 1)]
    for size in sorted(sizes, reverse=True):
        packs = [
            [*pack[:at], pack[at] + size, *pack[at + 1 :]]
            for pack in packs
            for at in range(len(pack))
            if pack[at] + size <= room and pack[at] not in pack[:at]
        ]
    assert not packs


def test_graphs_larger_than_half_a_pack_count_in_the_bound():
    assert fewest_packs(np.array([[6], [6], [6], [1]]), np.array([10])) == 3


@pytest.mark.parametrize(("num_nodes", "seed"), [(256, 0), (256, 1), (512, 0)])
def test_efficiency_tells_how_good_the_plan_is(num_nodes, seed):
    dataset = datasets.qm9()
    options = FixedSizeOptions.for_packing(dataset, num_nodes=num_nodes)
    arguments = {"fixed_size_options": options, "exclude_keys": ["name", "smiles"]}
    packed = {"fixed_size_strategy": FixedSizeStrategy.Pack, **arguments}
    torch.manual_seed(seed)
    shuffled = efficiency(FixedSizeDataLoader(dataset, shuffle=True, **packed))
    in_order = efficiency(FixedSizeDataLoader(dataset, **packed))
    fewest = -(-int(read_graphs(dataset).counts[NODE, None].sum()) // (num_nodes - 1))
    assert shuffled.fewest == in_order.fewest == max(in_order.fewest_by_budget.values())
    assert in_order.fewest_by_budget["nodes"] == fewest
    assert shuffled.batches <= 1.005 * fewest
    assert fewest <= in_order.batches <= fewest + 1
    assert str(in_order).endswith(f"{in_order.batches} batches; none can need fewer than {fewest}")


def test_efficiency_counts_mini_batches_of_combined_ones():
    dataset = [graph(nodes, 2, nodes) for nodes in (3, 4, 5, 6) * 3]
    options = poptorch.Options()
    options.deviceIterations(3)
    share = efficiency(FixedSizeDataLoader(dataset, 5, options=options))
    assert (share.batches, share.fewest) == (3, 3)
    assert share.fewest_by_budget == {"nodes": 3, "edges": 3, "graphs": 3}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("name", "wish"),
    [
        ("mutag", {"num_nodes": 179}),
        ("mutag", {"num_nodes": 256}),
        ("mutag", {"num_graphs": 10}),
        ("proteins", {"num_nodes": 1024}),
        ("proteins", {"num_graphs": 20}),
    ],
)
def test_packs_of_few_graphs_are_within_one_of_the_fewest_possible(name, wish, seed):
    dataset = real_dataset(name)
    options = FixedSizeOptions.for_packing(dataset, **wish)
    counts = read_graphs(dataset).counts
    budgets = Budgets.of(counts, options, keep_edge=True)
    order = torch.randperm(len(dataset), generator=torch.Generator().manual_seed(seed))
    fewest = max(
        int(counts[NODE, None].sum()) / (options.num_nodes - 1),
        int(counts[EDGE, None].sum()) / (options.num_edges - 1),
        len(dataset) / (options.num_graphs - 1),
    )
    assert len(pack(order, budgets).sizes) <= np.ceil(fewest) + 1


def test_any_two_graphs_can_meet_in_a_pack():
    sizes = [2, 3, 4, 5, 6, 7, 8, 9]
    budgets = budgets_of(sizes, sizes, 20, 20, 5)
    met = set()
    random = torch.Generator().manual_seed(0)
    for _ in range(400):
        for batch in pack(torch.randperm(len(sizes), generator=random), budgets).mini_batches():
            met |= {(one, other) for one in batch.tolist() for other in batch.tolist() if one < other}
    assert met == {(one, other) for other in range(len(sizes)) for one in range(other)}


def test_a_pack_per_graph_where_no_two_fit_together():
    plan = pack(torch.arange(3), budgets_of([9, 9, 9], [1, 1, 1], 10, 30, 5))
    assert plan.sizes == [1, 1, 1]


def test_budgets_for_packing_say_what_they_expect():
    dataset = [graph(nodes, 2 * nodes, nodes) for nodes in (3, 4, 5, 6) * 10]
    options = FixedSizeOptions.for_packing(dataset, num_nodes=46)
    assert options.num_nodes == 46
    loader = FixedSizeDataLoader(
        dataset, fixed_size_options=options, fixed_size_strategy=FixedSizeStrategy.Pack
    )
    assert "chosen for packing: 40 graphs of 4.5 nodes and 9.0 edges on average" in repr(options)
    assert f"take {len(loader)} batches" in repr(options)


def test_budgets_for_packing_keep_the_number_of_graphs_wished_for():
    dataset = [graph(nodes, 2 * nodes, nodes) for nodes in (3, 4, 5, 6) * 10]
    options = FixedSizeOptions.for_packing(dataset, num_graphs=11)
    assert options.num_graphs == 11
    assert 46 <= options.num_nodes <= 50
    assert 91 <= options.num_edges <= 100


def test_budgets_for_packing_serve_each_type():
    dataset = [hetero_graph(number, 2 * number, 3, 4) for number in (1, 2, 3) * 9]
    options = FixedSizeOptions.for_packing(dataset, num_graphs=10)
    assert options.num_graphs == 10
    assert options.num_nodes["paper"] > options.num_nodes["author"] >= 19


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        ({}, "either as num_nodes or as num_graphs"),
        ({"num_nodes": 9, "num_graphs": 9}, "either as num_nodes or as num_graphs"),
        ({"num_nodes": 5}, r"graph 1 has 6. Give at least num_nodes=7"),
        ({"num_graphs": 1}, r"num_graphs should be at least 2"),
    ],
)
def test_wishes_that_cannot_be_fulfilled_are_refused(wish, message):
    with pytest.raises(ValueError, match=message):
        FixedSizeOptions.for_packing([graph(3, 1), graph(6, 1)], **wish)


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=12),
    st.integers(1, 6),
)
def test_no_mini_batch_of_a_combined_batch_is_without_a_graph(sizes, num_mini_batches):
    plan = Plan(torch.arange(sum(sizes)), sizes)
    result = combined(plan, num_mini_batches, drop_last=False)
    assert len(result.sizes) % num_mini_batches == 0
    assert min(result.sizes, default=1) > 0
    assert len(result.graphs) + result.left_out == sum(sizes)
    assert result.left_out < num_mini_batches
    assert torch.equal(result.graphs, torch.arange(len(result.graphs)))


@given(st.lists(st.integers(1, 9), min_size=1, max_size=12), st.integers(1, 6))
def test_splitting_the_remainder_puts_no_graphs_together_that_were_apart(sizes, num_mini_batches):
    plan = Plan(torch.arange(sum(sizes)), sizes)
    before = [set(batch.tolist()) for batch in plan.mini_batches()]
    for batch in combined(plan, num_mini_batches, drop_last=False).mini_batches():
        assert any(set(batch.tolist()) <= group for group in before)


def test_drop_last_drops_an_incomplete_combined_batch():
    result = combined(Plan(torch.arange(9), [3, 3, 3]), 2, drop_last=True)
    assert (result.sizes, result.left_out) == ([3, 3], 0)


def test_a_graph_too_large_for_any_pack_is_named():
    budgets = budgets_of([3, 8, 9], [1, 1, 1], 8, 30, 5)
    with pytest.raises(
        ValueError, match=r"Graph 1 with 8 nodes .* Raise num_nodes to at least 9.* the 2 graphs"
    ):
        budgets.check()


@pytest.mark.parametrize("look", [len, efficiency])
def test_looking_at_a_shuffled_loader_does_not_change_what_comes(look):
    graphs = [graph(2 + number % 5, 3) for number in range(23)]

    def epoch(looks):
        torch.manual_seed(0)
        loader = FixedSizeDataLoader(
            graphs, batch_size=5, shuffle=True, fixed_size_strategy=FixedSizeStrategy.Pack
        )
        for _ in range(looks):
            look(loader)
        return [batch.nodes_mask.sum().item() for batch in loader], [batch.x for batch in loader]

    (sizes, values), (sizes_after, values_after) = epoch(0), epoch(2)
    assert sizes == sizes_after
    assert all(map(torch.equal, values, values_after))

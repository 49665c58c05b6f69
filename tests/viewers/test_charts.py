"""Charts print the numbers that they were given."""

from itertools import combinations

import pytest
import torch
from matplotlib.text import Text

from gnn_ipu_helpers import viewers
from gnn_ipu_helpers.batching.efficiency import Efficiency

from .conftest import texts


def widths(axes):
    return [round(patch.get_width(), 6) for patch in axes.patches]


def test_losses_are_drawn_from_epoch_one():
    picture = viewers.losses({"CPU": [2.0, 1.0, 0.5], "wrapped": [2.1, 1.1]})
    first, second = picture.figure.axes[0].get_lines()
    assert first.get_xdata().tolist() == [1, 2, 3]
    assert second.get_ydata().tolist() == [2.1, 1.1]
    assert (
        picture.alt
        == "Line chart: CPU goes from 2 to 0.5 in 3 epochs; wrapped goes from 2.1 to 1.1 in 2 epochs."
    )


def test_losses_take_tensors_a_log_axis_and_accuracies():
    picture = viewers.losses(
        {"loss": [torch.tensor(2.0), torch.tensor(1.0)]}, accuracies={"test": [0.5, 0.81]}, log=True
    )
    upper, lower = picture.figure.axes
    assert upper.get_yscale() == "log"
    assert lower.get_lines()[0].get_ydata().tolist() == [0.5, 0.81]
    assert "test accuracy in % goes from 50 to 81 in 2 epochs" in picture.alt


def test_an_empty_curve_is_refused():
    with pytest.raises(ValueError, match=r"at least one value \(got none for 'CPU'\)"):
        viewers.losses({"CPU": []})


def test_curves_that_end_together_are_named_apart_in_their_order():
    values = {"one hidden layer": [1, 0.5], "two hidden layers": [1, 0.501], "three": [1, 0.502]}
    figure = viewers.losses(values, accuracies=values).figure
    figure.draw_without_rendering()
    for axes in figure.axes:
        assert axes.get_legend() is None
        labels = [Text.get_window_extent(text) for text in axes.texts]
        assert not any(one.overlaps(other) for one, other in combinations(labels, 2))
        assert [label.y0 for label in labels] == sorted(label.y0 for label in labels)
        assert all(label.x1 <= figure.bbox.width for label in labels)


@pytest.mark.parametrize(
    ("share", "words"), [(0, "0 %"), (0.001, "1 %"), (0.425, "42 %"), (0.9996, "99 %"), (1, "100 %")]
)
def test_all_and_nothing_are_said_of_all_and_nothing_only(share, words):
    assert words in texts(viewers.padding_waste({"Pack": {"nodes": share}}, of=["nodes"]))


def test_padding_waste_draws_real_and_padding_up_to_one():
    values = {
        "StreamPack": Efficiency(0.3991, 0.45, 0.9),
        "Pack": {"nodes": 0.97, "edges": 0.5, "graphs": 0.25},
    }
    picture = viewers.padding_waste(values)
    bars = widths(picture.figure.axes[0])
    assert bars[0::2] == [0.3991, 0.45, 0.9, 0.97, 0.5, 0.25]
    assert [real + padding for real, padding in zip(bars[0::2], bars[1::2])] == pytest.approx([1.0] * 6)
    assert {"40 %", "StreamPack", "Pack"} <= set(texts(picture))
    assert "StreamPack: 40 % of nodes, 45 % of edges and 90 % of graphs" in picture.alt


def test_padding_waste_of_chosen_kinds():
    picture = viewers.padding_waste({"per type": {"nodes": 0.7}}, of=["nodes"])
    assert widths(picture.figure.axes[0]) == [0.7, 0.3]


@pytest.mark.parametrize("share", [1.5, -0.1, None])
def test_padding_waste_refuses_what_is_no_share(share):
    with pytest.raises(ValueError, match=rf"'Pack' for nodes should be between 0 and 1 \(got {share}\)"):
        viewers.padding_waste({"Pack": {"nodes": share}}, of=["nodes"])


def test_packs_are_as_long_as_their_graphs_and_the_rest_is_padding():
    picture = viewers.packs([5, 3, 4, 2], [[0, 1], [2, 3]], 12)
    assert widths(picture.figure.axes[0]) == [5, 3, 4, 4, 2, 6]
    assert {"g0: 5", "g1: 3", "pad: 4", "g2: 4", "g3: 2", "pad: 6"} <= set(texts(picture))
    assert "4 graphs in 2 packs: 14 of 24 nodes are real (58 %)" in texts(picture)
    assert "pack 1 holds graph 2 (4) and graph 3 (2), and 6 nodes of padding" in picture.alt


def test_a_pack_beyond_its_budget_is_refused():
    with pytest.raises(ValueError, match="pack 0 holds 8 edges, more than the budget of 7"):
        viewers.packs([5, 3], [[0, 1]], 7, unit="edges")


@pytest.mark.parametrize("plan", [[[0, 0]], [[2]], []])
def test_a_plan_that_repeats_or_misses_graphs_is_refused(plan):
    with pytest.raises(ValueError, match="graphs 0 to 1 can be in one pack at most"):
        viewers.packs([5, 3], plan, 20)


def test_parity_prints_the_mean_absolute_error_beside_that_of_the_mean():
    picture = viewers.parity(torch.tensor([1.0, 2.5, 3.0]), torch.tensor([1.0, 2.0, 3.0]), unit="eV")
    assert "MAE 0.167 eV; predicting the mean: 0.667 eV" in texts(picture)
    assert "3 samples" in picture.alt


def test_parity_refuses_unequal_lengths():
    with pytest.raises(ValueError, match=r"got 2 and 3"):
        viewers.parity([1, 2], [1, 2, 3])


def test_confusion_counts_true_by_row_and_predicted_by_column():
    picture = viewers.confusion(torch.tensor([0, 0, 1, 2]), torch.tensor([0, 1, 1, 0]), names=["a", "b", "c"])
    cells = {text.get_position()[::-1]: text.get_text() for text in picture.figure.axes[0].texts}
    assert {place: int(count) for place, count in cells.items() if count != "0"} == {
        (0, 0): 1,
        (0, 1): 1,
        (1, 1): 1,
        (2, 0): 1,
    }
    assert "accuracy 50 % of 4 samples" in texts(picture)
    assert "a 50 %, b 100 % and c 0 %" in picture.alt


def test_confusion_refuses_too_few_names():
    with pytest.raises(ValueError, match=r"3 classes need as many names \(got 2\)"):
        viewers.confusion([0, 2], [0, 1], names=["a", "b"])


def test_embedding_draws_every_point_under_its_class():
    picture = viewers.embedding(torch.eye(3), [1, 0, 1], names=["cat", "dog"])
    drawn = {found.get_label(): len(found.get_offsets()) for found in picture.figure.axes[0].collections}
    assert drawn == {"cat": 1, "dog": 2}
    assert "3 points projected on two principal components, by class: cat (1) and dog (2)" in picture.alt


def test_embedding_in_the_plane_is_not_projected():
    picture = viewers.embedding([[0.0, 1.0], [2.0, 5.0]], [0, 0])
    assert picture.figure.axes[0].collections[0].get_offsets().tolist() == [[0.0, 1.0], [2.0, 5.0]]


def test_embedding_keeps_long_names_inside_the_figure_and_apart():
    names = ["Reinforcement learning", "Probabilistic methods", "Genetic algorithms", "Theory"]
    figure = viewers.embedding([[0, 0], [0.1, 0], [1, 0.01], [1, 0]], range(4), names=names).figure
    figure.draw_without_rendering()
    labels = [text.get_window_extent() for text in figure.axes[0].texts]
    assert len(labels) == 4
    assert all(label.x0 >= 0 and label.x1 <= figure.bbox.width for label in labels)
    assert not any(one.overlaps(other) for one, other in combinations(labels, 2))


def test_embedding_refuses_unequal_lengths():
    with pytest.raises(ValueError, match=r"got \[2, 2\] and 3 labels"):
        viewers.embedding([[0, 1], [1, 0]], [0, 1, 1])

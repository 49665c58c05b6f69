"""How everything here is timed: in turns, by `torch.utils.benchmark`, as rows of one table.

What is compared runs in turns, so that a busy machine slows all of it alike, and a ratio is taken within each
turn. Times are CPU times of this process unless processes beside it do the work.
"""

from __future__ import annotations

import dataclasses
import statistics
import time
from typing import Callable

from torch.utils.benchmark import Timer


@dataclasses.dataclass
class Row:
    """One line of the table: the median, the quartiles, and how many times as fast as the baseline."""

    section: str
    name: str
    value: float
    unit: str
    low: float | None = None
    high: float | None = None
    times: float | None = None
    times_low: float | None = None
    times_high: float | None = None
    baseline: str = ""


def in_turns(
    functions: dict[str, Callable[[], object]],
    rounds: int,
    seconds: float = 0.1,
    threads: int = 1,
    timer: Callable[[], float] = time.process_time,
) -> dict[str, list[float]]:
    """The seconds of one call of each function, in each of the rounds.

    Args:
        functions: What is compared, by name; ready to run, with nothing left to compile.
        rounds: How often all of them are timed, one after the other.
        seconds: About how long one of them runs in a round.
        threads: For PyTorch.
        timer: The clock.
    """
    timers = {
        name: Timer("run()", globals={"run": run}, timer=timer, num_threads=threads)
        for name, run in functions.items()
    }
    numbers = {name: max(1, round(seconds / max(t.timeit(1).mean, 1e-6))) for name, t in timers.items()}
    turns = [{name: t.timeit(numbers[name]).mean for name, t in timers.items()} for _ in range(rounds)]
    return {name: [turn[name] for turn in turns] for name in functions}


def compared(
    section: str,
    times: dict[str, list[float]],
    baseline: str,
    unit: str = "ms",
    scale: float = 1e3,
    without_ratio: tuple[str, ...] = (),
) -> list[Row]:
    """A row for each name of `times`, with its ratio to the baseline.

    Args:
        section: Where the rows belong.
        times: What `in_turns` measured.
        baseline: The name that the others are compared with.
        unit: Of the values.
        scale: What seconds are multiplied by to get the unit.
        without_ratio: Names that only stand beside, such as a limit.
    """
    rows = []
    for name, values in times.items():
        low, middle, high = (scale * value for value in quartiles(values))
        row = Row(section, name, middle, unit, low, high)
        if name != baseline and name not in without_ratio:
            ratios = [theirs / ours for theirs, ours in zip(times[baseline], values)]
            row.times_low, row.times, row.times_high = quartiles(ratios)
            row.baseline = baseline
        rows.append(row)
    return rows


def quartiles(values: list[float]) -> tuple[float, float, float]:
    """The lower quartile, the median and the upper quartile."""
    if len(values) == 1:
        return values[0], values[0], values[0]
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, middle, high

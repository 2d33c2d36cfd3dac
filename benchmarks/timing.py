"""Compares speeds on a shared machine: interleaved runs and medians."""

import time
from collections.abc import Callable, Mapping
from statistics import median


def seconds(contestants: Mapping[str, Callable[[], object]], rounds: int, warm_up: int = 2) -> dict[str, float]:
    """The median time of each contestant; they take turns, so that a slow moment affects all of them."""
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for turn in range(warm_up + rounds):
        for name, contestant in contestants.items():
            started = time.perf_counter()
            contestant()
            if turn >= warm_up:
                times[name].append(time.perf_counter() - started)
    return {name: median(taken) for name, taken in times.items()}

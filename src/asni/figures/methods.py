"""Methods side by side: accuracy against what is left of the network."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, NullLocator

from asni.errors import AsniError
from asni.figures import style

_SAME_SIZE = 1.1  # methods that cannot be told a sparsity end near it: within ten per cent counts as one size


@dataclass(frozen=True)
class Point:
    """The seeds of one method at one size."""

    nonzeros: float
    accuracies: tuple[float, ...]

    @property
    def mean(self) -> float:
        return fmean(self.accuracies)

    @property
    def spread(self) -> float:
        """The standard deviation over seeds; 0 for a single one."""
        return stdev(self.accuracies) if len(self.accuracies) > 1 else 0.0


def points(results: Iterable[Mapping[str, Any]]) -> list[Point]:
    """The results of one method gathered by size; those that are NaN or have no nonzeros are left out.

    >>> points([{"nonzeros": 100, "accuracy": 90.0}, {"nonzeros": 104, "accuracy": 92.0}])
    [Point(nonzeros=102.0, accuracies=(90.0, 92.0))]
    """
    groups: list[list[tuple[int, float]]] = []
    sound = [result for result in results if _defect(result) is None]
    for nonzeros, accuracy in sorted((result["nonzeros"], result["accuracy"]) for result in sound):
        if groups and nonzeros <= _SAME_SIZE * groups[-1][0][0]:
            groups[-1].append((nonzeros, accuracy))
        else:
            groups.append([(nonzeros, accuracy)])
    return [Point(fmean(n for n, _ in group), tuple(a for _, a in group)) for group in groups]


def accuracy_by_nonzeros(results: Sequence[Mapping[str, Any]]) -> Figure:
    """Accuracy against nonzeros, one line a method: the mean over seeds and one standard deviation.

    Each result has at least "method", "nonzeros", "accuracy" and "seed", as `result.json` does. The dense network is
    a level to reach, drawn across.
    """
    if not results:
        raise AsniError("there are no results to draw")
    by_method: dict[str, list[Mapping[str, Any]]] = {}
    for result in results:
        by_method.setdefault(result["method"], []).append(result)
    with style.applied():
        figure = Figure(figsize=(4.6, 3.0), layout="constrained")
        axes = figure.subplots()
        _mark_sizes(axes, [p.nonzeros for method, own in by_method.items() if method != "dense" for p in points(own)])
        for (method, own), look in zip(by_method.items(), style.looks(list(by_method)), strict=True):
            label = style.label(method) + _left_out(own)
            if method == "dense":
                _draw_level(axes, points(own), label)
            else:
                _draw_method(axes, points(own), look, label)
        axes.set(xlabel="nonzero parameters", ylabel="test accuracy (%)")
        style.grid(axes)
        figure.legend(loc="outside right upper")
    return figure


def _left_out(results: Iterable[Mapping[str, Any]]) -> str:
    counted = Counter(defect for defect in map(_defect, results) if defect is not None)
    return f" ({', '.join(f'{count} {defect}' for defect, count in counted.items())})" if counted else ""


def _defect(result: Mapping[str, Any]) -> str | None:
    """Why a result has no place on a logarithmic axis of sizes; None if it has one."""
    if not (_is_finite(result["accuracy"]) and _is_finite(result["nonzeros"])):
        return "NaN"
    return None if result["nonzeros"] > 0 else "without nonzeros"


def _is_finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def _draw_level(axes: Axes, dense: list[Point], label: str) -> None:
    accuracies = [accuracy for point in dense for accuracy in point.accuracies]
    level = fmean(accuracies) if accuracies else math.nan
    axes.axhline(level, color=style.GREY, linewidth=1, linestyle=(0, (6, 2)), label=label, zorder=1)


def _draw_method(axes: Axes, points: list[Point], look: style.Look, label: str) -> None:
    axes.errorbar(
        [point.nonzeros for point in points],
        [point.mean for point in points],
        [point.spread for point in points],
        color=look.colour,
        linestyle=look.dashes,
        marker=look.marker,
        capsize=1.5,
        elinewidth=0.8,
        label=label,
    )


def _mark_sizes(axes: Axes, sizes: Sequence[float]) -> None:
    """A logarithmic axis that labels the sizes that were measured, as many as fit."""
    axes.set_xscale("log")
    if not sizes:
        return
    marked: list[float] = []
    apart = max(1.2, (max(sizes) / min(sizes)) ** (1 / 7))
    for size in sorted(sizes):
        if not marked or size >= apart * marked[-1]:
            marked.append(size)
    axes.set_xlim(min(sizes) / apart**0.5, max(sizes) * apart**0.5)
    axes.set_xticks(marked, [EngFormatter()(float(f"{size:.3g}")) for size in marked])
    axes.xaxis.set_minor_locator(NullLocator())

"""Figures over epochs: the pruning schedule, and the accuracy and sparsity of runs."""

import math
from pathlib import Path

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from asni.errors import AsniError
from asni.figures import style
from asni.figures.naming import Runs, named
from asni.pruning.schedules import Sigmoid
from asni.runs import reading

Column = npt.NDArray[np.float64]

# gamma as a fraction of E (1, 3, 9, 20 and 100 of the paper's 90 epochs) and its look
_GAMMAS: list[tuple[float, str, style.Dashes]] = [
    (1 / 90, style.PURPLE, (0, (1, 1))),
    (3 / 90, style.VERMILLION, (0, (5, 1.5))),
    (9 / 90, style.BLUE, "-"),
    (20 / 90, style.GREEN, (0, (4, 1.2, 1, 1.2))),
    (100 / 90, style.ORANGE, (0, (7, 2))),
]
_ANOTHER = (style.BLACK, (0, (3, 1, 1, 1, 1, 1)))


def schedule(
    epochs: int,
    sparsity: float,
    *,
    beta: float = 0.5,
    gamma: float | None = None,
    least: float = 0.0,
    run: str | Path | None = None,
) -> style.Figure:
    """Draw sparsity over epochs for the paper's five values of gamma (Fig. 3), and the measured sparsity of `run`.

    A curve is `p(e) = alpha * sigmoid((e - beta*E) / gamma)`, with alpha such that it ends at `sparsity`. `gamma` is
    that of the run and drawn thick; the default is a tenth of the epochs E.

    >>> from asni import figures
    >>> figures.schedule(epochs=50, sparsity=0.97)
    <Figure size 440x270 with 1 Axes>
    >>> figures.schedule(epochs=3, sparsity=0.5, run="runs/digits-fc/seed-0/asni-1")
    <Figure size 440x270 with 1 Axes>
    """
    own = epochs / 10 if gamma is None else gamma
    own_note = "E/10" if gamma is None else "this run's"
    with style.applied():
        figure = style.Figure(figsize=(4.4, 2.7), layout="constrained")
        axes = figure.subplots()
        for width, (colour, dashes) in _gamma_styles(epochs, own).items():
            planned = Sigmoid(sparsity, beta, width, least)
            curve = [100 * planned(epoch, epochs) for epoch in range(epochs)]
            label = f"$\\gamma$ = {width:.{2 if width < 10 else 3}g}" + (f" ({own_note})" if width == own else "")
            axes.plot(curve, color=colour, linestyle=dashes, linewidth=2 if width == own else 1.2, label=label)
        if run is not None:
            _draw_measured(axes, Path(run))
        axes.set(xlabel="epoch", ylabel="pruned weights (%)", xlim=(0, max(epochs - 1, 1)))
        axes.set_ylim(bottom=0)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
        style.grid(axes)
        figure.legend(loc="outside right upper")
    return figure


def _gamma_styles(epochs: int, own: float) -> dict[float, tuple[str, style.Dashes]]:
    """The paper's values of gamma, ascending, with their looks; `own` is added if it is not one of them."""
    styles: dict[float, tuple[str, style.Dashes]] = {own: _ANOTHER}
    for share, colour, dashes in _GAMMAS:
        gamma = share * epochs
        styles[own if math.isclose(gamma, own) else gamma] = (colour, dashes)
    return dict(sorted(styles.items()))


def _draw_measured(axes: Axes, run: Path) -> None:
    measured = reading.metrics(run)
    sparsity = measured["sparsity"]
    axes.plot(
        measured["epoch"],
        100 * sparsity,
        linestyle="none",
        marker="o",
        markersize=3.2,
        markeredgewidth=0.8,
        markerfacecolor="white",
        markeredgecolor=style.BLACK,
        markevery=_marks(sparsity, 30),
        clip_on=False,
        label="this run",
    )


def training(runs: Runs) -> style.Figure:
    """Draw test accuracy and sparsity over epochs for one or several runs; a NaN is a gap in the line.

    `runs` is a run, a directory of runs such as the seed of an investigation, a list of runs, or a dict of names and
    runs. The accuracy axis is fitted to the epochs after the first tenth, so that small differences show.

    >>> from asni import figures
    >>> figures.training("runs/digits-fc/seed-0")
    <Figure size 690x370 with 2 Axes>
    >>> figures.training({"pruned": "runs/digits-fc/seed-0/asni-1", "not pruned": "runs/digits-fc/seed-0/dense"})
    <Figure size 690x370 with 2 Axes>
    """
    measured = {name: reading.metrics(run) for name, run in named(runs).items()}
    if not measured:
        raise AsniError("no runs to draw: `runs` is empty")
    with style.applied():
        figure = style.Figure(figsize=(style.PAGE_WIDTH, 3.7), layout="constrained")
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=[2.2, 1])
        for number, ((name, columns), look) in enumerate(
            zip(measured.items(), style.looks(list(measured)), strict=True)
        ):
            for axes, values in [(above, columns["accuracy"]), (below, 100 * columns["sparsity"])]:
                axes.plot(
                    columns["epoch"],
                    values,
                    color=look.colour,
                    linestyle=look.dashes,
                    marker=look.marker,
                    markevery=_marks(values, 10, number / len(measured)),
                    label=style.label(name),
                )
        above.set_ylabel("test accuracy (%)")
        above.set_ylim(*_settled([columns["accuracy"] for columns in measured.values()]))
        below.set(xlabel="epoch", ylabel="pruned weights (%)", ylim=(-5, 105), yticks=(0, 50, 100))
        for axes in (above, below):
            style.grid(axes)
            axes.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
        figure.align_ylabels()
        figure.legend(*above.get_legend_handles_labels(), loc="outside upper center", ncols=min(len(measured), 5))
    return figure


def _settled(accuracies: list[Column]) -> tuple[float, float]:
    """Axis limits that include every accuracy after the first tenth of the epochs, and the overall best."""
    settled = np.concatenate([values[len(values) // 10 :] for values in accuracies])
    every = np.concatenate(accuracies)
    if np.isnan(settled).all():
        return 0.0, 100.0
    low, high = float(np.nanmin(settled)), float(np.nanmax(every))
    margin = 0.05 * (high - low) or 1.0
    return low - margin, high + margin


def _marks(values: Column, about: int, shift: float = 0) -> list[int]:
    """The points with a marker: roughly `about`, evenly spaced, and each point between two gaps, which no line shows.

    Each series starts a fraction (`shift`) of a step later, so that overlapping lines can be distinguished.
    """
    step = max(1, round(len(values) / about))
    gap = np.concatenate([[True], np.isnan(values), [True]])
    alone = np.flatnonzero(gap[:-2] & ~gap[1:-1] & gap[2:])
    return sorted({*range(int(shift * step), len(values), step), *map(int, alone)})

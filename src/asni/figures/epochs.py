"""Figures over epochs: the pruning schedule, and the accuracy and sparsity of runs."""

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from asni.errors import AsniError
from asni.figures import style
from asni.figures.naming import Runs, named
from asni.pruning.schedules import Sigmoid
from asni.recipes.prunings import Prunings, prunings
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
    that of the run and drawn thick; the default is a tenth of the epochs E. The curves are those of prunings after each
    epoch, or as often as `run` was pruned. For a run along a cubic curve, that one is drawn instead.

    >>> from asni import figures
    >>> figures.schedule(epochs=50, sparsity=0.97)
    <Figure size 440x270 with 1 Axes>
    >>> figures.schedule(epochs=3, sparsity=0.5, run="runs/digits-fc/seed-0/asni-1")
    <Figure size 440x270 with 1 Axes>
    """
    own = epochs / 10 if gamma is None else gamma
    pruned = None if run is None else _prunings_of(Path(run), epochs)
    with style.applied():
        figure = style.Figure(figsize=(4.4, 2.7), layout="constrained")
        axes = figure.subplots()
        if pruned is None or isinstance(pruned.schedule, Sigmoid):
            count, done = (epochs, range(1, epochs + 1)) if pruned is None else (pruned.count, pruned.done)
            for width, (colour, dashes) in _gamma_styles(epochs, own).items():
                planned = Sigmoid(sparsity, beta, width, least).finer(count / epochs)
                curve = [100 * planned(each - 1, count) if each else 0.0 for each in done]
                thick, label = 2 if width == own else 1.2, _gamma_label(width, own, is_default=gamma is None)
                axes.plot(curve, color=colour, linestyle=dashes, linewidth=thick, label=label)
        else:
            curve = [100 * share for share in pruned.sparsities]
            axes.plot(curve, color=style.BLUE, linewidth=2, label="cubic (this run's)")
        if run is not None:
            _draw_measured(axes, Path(run))
        axes.set(xlabel="epoch", ylabel="pruned weights (%)", xlim=(0, max(epochs - 1, 1)))
        axes.set_ylim(bottom=0)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
        style.grid(axes)
        figure.legend(loc="outside right upper")
    return figure


def _prunings_of(run: Path, epochs: int) -> Prunings | None:
    """When the run was pruned; None if its files do not tell of a training of so many epochs."""
    recipe = reading.recipe(run)
    steps = reading.steps_per_epoch(recipe, reading.own_data(run))
    return None if steps is None or recipe.training.epochs != epochs else prunings(recipe, steps)


def _gamma_label(width: float, own: float, *, is_default: bool) -> str:
    note = " (E/10)" if is_default else " (this run's)"
    return f"$\\gamma$ = {width:.{2 if width < 10 else 3}g}" + note * (width == own)


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

    A thin line of the same look is the MAC density, the part of the dense network's multiplications that the living
    weights take, where a run recorded it.

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
        has_macs = any(map(_knows_macs, measured.values()))
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=[1.7 if has_macs else 2.2, 1])
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
            if _knows_macs(columns):
                macs = 100 * columns["mac_density"]
                below.plot(columns["epoch"], macs, color=look.colour, linestyle=look.dashes, linewidth=0.7)
        above.set_ylabel("test accuracy (%)")
        above.set_ylim(*_settled([columns["accuracy"] for columns in measured.values()]))
        ylabel = "pruned weights (%)" + "\nMACs left (%, thin)" * has_macs
        below.set(xlabel="epoch", ylabel=ylabel, ylim=(-5, 105), yticks=(0, 50, 100))
        for axes in (above, below):
            style.grid(axes)
            axes.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
        figure.align_ylabels()
        figure.legend(*above.get_legend_handles_labels(), loc="outside upper center", ncols=min(len(measured), 5))
    return figure


def _knows_macs(columns: Mapping[str, Column]) -> bool:
    return "mac_density" in columns and not np.isnan(columns["mac_density"]).all()


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

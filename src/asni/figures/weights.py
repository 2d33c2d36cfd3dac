"""Figures of weight distributions, in each layer and in the whole network."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import StepPatch
from matplotlib.transforms import Bbox

from asni.errors import AsniError, unknown
from asni.figures import style
from asni.figures.distributions import Histogram, Layer, histogram, layers, surviving
from asni.figures.naming import Runs, named
from asni.runs import names, reading

SHOWN = 0.995  # fraction of the weights; the few outliers would squeeze all others into the middle
_HALF_LABEL = 0.17  # inches: half the width of "-0.0012" in its font size
_CAPTION = "Surviving weights of each layer. Lines and numbers: the means of its negative and of its positive weights."


def layer_distributions(run: str | Path, only: Sequence[str] | None = None) -> style.Figure:
    """Draw the surviving weights and the two centroids of each layer (Fig. 2 and the appendix), as small multiples.

    `only` selects layers by name.

    >>> from asni import figures
    >>> figures.layer_distributions("runs/digits-fc/seed-0/asni-1", only=["linear1"])
    <Figure size 690x185 with 1 Axes>
    """
    shown = _chosen(layers(*reading.masked_weights(Path(run))), only)
    columns, panel_height = (6, 1.0) if len(shown) > 12 else (min(len(shown), 4), 1.6)
    panel_width = style.PAGE_WIDTH / columns
    height = 0.25 + panel_height * math.ceil(len(shown) / columns)
    with style.applied():
        figure = style.Figure(figsize=(style.PAGE_WIDTH, height))
        # One set of axes for all panels, in inches: fifty separate ones would take seconds to draw.
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set_axis_off()
        axes.set(xlim=(0, style.PAGE_WIDTH), ylim=(0, height))
        axes.text(0.07, height - 0.06, _CAPTION, va="top", fontsize=7)
        for number, layer in enumerate(shown):
            row, column = divmod(number, columns)
            bottom = height - 0.25 - (row + 1) * panel_height
            _draw_layer(axes, layer, Bbox.from_bounds(column * panel_width, bottom, panel_width, panel_height))
    return figure


def _chosen(found: list[Layer], only: Sequence[str] | None) -> list[Layer]:
    if only is not None and not only:
        raise AsniError("no layers to draw: `only` is empty. Name some layers, or omit it to draw all of them.")
    by_name = {layer.name: layer for layer in found}
    wanted = list(by_name) if only is None else [name.removesuffix(".weight") for name in only]
    for name in wanted:
        if name not in by_name:
            raise unknown("layer", name, by_name)
    return [by_name[name] for name in wanted]


def _draw_layer(axes: Axes, layer: Layer, panel: Bbox) -> None:
    reach = layer.histogram.reach(SHOWN)
    counted = _for_drawing(layer.histogram, reach, most_bins=160)
    left, right, floor = panel.x0 + 0.07, panel.x1 - 0.07, panel.y0 + 0.2
    across = (right - left) / (2 * reach)
    up = (panel.height - 0.56) / max(counted.counts, default=1)
    middle, zero = (left + right) / 2, max(0, -counted.first)
    for colour, centroid, start, stop, room in [
        (style.VERMILLION, layer.negative, 0, zero, (left, middle)),
        (style.BLUE, layer.positive, zero, len(counted.counts), (middle, right)),
    ]:
        if centroid is not None:
            heights = floor + up * counted.counts[start:stop]
            at = np.clip(middle + across * counted.edges[start : stop + 1], left, right)
            axes.add_artist(StepPatch(heights, at, baseline=floor, fill=True, color=colour, alpha=0.45, linewidth=0))
            x = np.clip(middle + across * centroid, left, right)
            axes.add_artist(Line2D([x, x], [floor, panel.y1 - 0.33], color=colour, linewidth=1.1))
            value = f"{centroid:.2g}".replace("-", "\N{MINUS SIGN}")
            # Next to its line, but within its half, so that the two numbers do not overlap.
            beside = np.clip(x, room[0] + _HALF_LABEL, room[1] - _HALF_LABEL)
            axes.text(beside, floor - 0.04, value, fontsize=5.5, ha="center", va="top")
    axes.add_artist(Line2D([left, right], [floor, floor], color=style.BLACK, linewidth=0.6))
    name = style.plain(style.shortened(layer.name, int(panel.width / 0.05)))
    axes.text(left, panel.y1 - 0.1, name, fontsize=6, va="top")
    note = f"{100 * layer.sparsity:.1f} % pruned"
    axes.text(left, panel.y1 - 0.2, note, fontsize=5, va="top", color=style.GREY)


def _for_drawing(counted: Histogram, reach: float, most_bins: int) -> Histogram:
    """The part within `reach`, in a number of bins that grows as n^(1/3), so that a small layer has few empty bins."""
    bins = min(most_bins, max(16.0, 4 * counted.total ** (1 / 3)))
    width = max(counted.width, 2.0 ** round(math.log2(2 * reach / bins)))
    return counted.merged(width).within(math.ceil(reach / width) * width)


def network_distribution(runs: Runs) -> style.Figure:
    """Draw the surviving weights of the whole network, overlaid for several runs (Fig. 4).

    `runs` are given as to `training`. For a run that is named "initial", the weights at its start are drawn. Each curve
    has area one, so that sparse and dense networks can be compared.

    >>> from asni import figures
    >>> run = "runs/digits-fc/seed-0/asni-1"
    >>> figures.network_distribution({"initial": run, "asni-1": run})
    <Figure size 460x280 with 1 Axes>
    """
    counted = {name: _network_histogram(name, run) for name, run in named(runs).items()}
    if not counted:
        raise AsniError("no networks to draw: `runs` is empty")
    reach = max(each.reach(SHOWN) for each in counted.values())
    with style.applied():
        figure = style.Figure(figsize=(4.6, 2.8), layout="constrained")
        axes = figure.subplots()
        peaks = {}
        for (name, each), look in zip(counted.items(), style.looks(list(counted)), strict=True):
            binned = _for_drawing(each, reach, most_bins=512)
            density = binned.counts / (max(each.total, 1) * binned.width)
            middles = binned.edges[:-1] + binned.width / 2
            axes.plot(middles, density, color=look.colour, linestyle=look.dashes, label=style.label(name))
            peaks[style.label(name)] = float(max(density, default=0))
        axes.set(xlabel="weight", ylabel="density of surviving weights", xlim=(-reach, reach))
        _cut_lonely_peak(axes, peaks)
        figure.legend(loc="outside right upper")
    return figure


def _network_histogram(name: str, run: Path) -> Histogram:
    if name == "initial":
        return histogram(reading.weights(run, names.INITIAL).values())
    return histogram(surviving(*reading.masked_weights(run)).values())


def _cut_lonely_peak(axes: Axes, peaks: Mapping[str, float]) -> None:
    """Weight decay can push most weights to zero; such a peak is cut off, and its height is written into the figure."""
    (highest, name), *others = sorted(((peak, name) for name, peak in peaks.items()), reverse=True)
    room = 2.5 * others[0][0] if others else highest
    axes.set_ylim(0, 1.05 * min(highest, room or highest) or 1)
    if 0 < room < highest:
        axes.text(0.52, 0.99, f"{name} peaks at {highest:.3g}", transform=axes.transAxes, fontsize=6.5, va="top")

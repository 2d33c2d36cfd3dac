"""Weight histograms for the page: exact counts, in few enough bins to keep the page small."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from asni.figures.distributions import Histogram, Layer, places
from asni.figures.sparsity import stage_colours
from asni.figures.weights import SHOWN
from asni.report.collecting import ShownRun

_COMPARED = ("dense", "asni-1", "asni-2")
_SHOWN_OF_LAYER = 0.999  # a few outliers would squeeze the others into one bar


def layers(found: Sequence[Layer], bins: int) -> list[dict[str, Any]]:
    """Each layer with its histogram; in a network with stages also with its stage, its part in it and its colour."""
    shown = [_layer(layer, bins) for layer in found]
    placed = places([layer.name for layer in found])
    if any(place.stage is not None for place in placed):
        for layer, place, colour in zip(shown, placed, stage_colours(placed), strict=True):
            layer["place"] = {"stage": place.stage, "skip": place.skip, "opens": place.opens, "colour": colour}
    return shown


def _layer(layer: Layer, bins: int) -> dict[str, Any]:
    reach = layer.histogram.reach(_SHOWN_OF_LAYER)
    shown = _merged(layer.histogram, _width([layer.histogram], reach, bins), reach)
    return {
        "name": layer.name,
        "weights": layer.weights,
        "survivors": layer.survivors,
        "positive": layer.positive,
        "negative": layer.negative,
        "width": shown.width,
        "first": shown.first,
        "counts": shown.counts.tolist(),
        "outside": layer.histogram.total - shown.total,
    }


def distribution(runs: Sequence[ShownRun], bins: int) -> dict[str, Any] | None:
    """Histograms of whole networks in common bins: the initial network of each seed, then the result of each method.

    None if there is no network to show. In a set, `run` is an index into `runs`, or None for an initial network.
    The bins cover the range of the networks that the paper compares.
    """
    initial = {run.seed: run.initial for run in runs if run.initial is not None}
    sets = [({"seed": seed, "run": None, "compared": True}, counted) for seed, counted in initial.items()]
    for place, run in enumerate(runs):
        if run.network is not None and run.is_last:
            sets.append(({"seed": run.seed, "run": place, "compared": run.stage in _COMPARED}, run.network))
    sets = [(whose, counted) for whose, counted in sets if counted.total]
    if not sets:
        return None
    compared = [counted for whose, counted in sets if whose["compared"]]
    reach = max(counted.reach(SHOWN) for counted in compared or [counted for _, counted in sets])
    width = _width([counted for _, counted in sets], reach, 2 * bins)  # a line can show finer bins than bars
    shown = [{**whose, "weights": each.total, "counts": _on_grid(each, width, reach)} for whose, each in sets]
    return {"width": width, "first": -math.ceil(reach / width), "sets": shown}


def _width(histograms: Iterable[Histogram], reach: float, bins: int) -> float:
    """The smallest width to which all histograms can be merged and that needs at most `bins` bins."""
    width = max(histogram.width for histogram in histograms)
    while 2 * math.ceil(reach / width) > bins:
        width *= 2
    return width


def _merged(histogram: Histogram, width: float, reach: float) -> Histogram:
    return histogram.merged(width).within(math.ceil(reach / width) * width)


def _on_grid(histogram: Histogram, width: float, reach: float) -> list[int]:
    """The counts of all bins within `reach`, including the empty ones below and above all values."""
    merged = _merged(histogram, width, reach)
    half = math.ceil(reach / width)
    counts = np.zeros(2 * half, np.int64)
    counts[half + merged.first : half + merged.first + len(merged.counts)] = merged.counts
    return [int(count) for count in counts]

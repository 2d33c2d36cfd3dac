"""A pruner in a notebook: where it is on its schedule, and what is left of each layer."""

from typing import TYPE_CHECKING

from asni.pruning.html import curve, folded_if_long, paragraph, share, table
from asni.pruning.masks import count_each
from asni.pruning.sharded import any_sharded

if TYPE_CHECKING:
    from asni.pruning.pruner import Pruner

POINTS = 240


def pruner_html(pruner: "Pruner") -> str:
    """Its repr, its schedule with the present position, and a table of its layers."""
    return paragraph(repr(pruner)) + _schedule(pruner) + _layers(pruner)


def _schedule(pruner: "Pruner") -> str:
    if pruner.length is None or pruner.planned(0) is None:
        return ""
    steps = pruner.length.steps
    planned = [pruner.planned(round(steps * place / POINTS)) or 0.0 for place in range(POINTS + 1)]
    unit, _, place = pruner.progress.partition(" ")
    return paragraph(
        curve(planned, end=f"{unit} {place.partition('/')[2]}", now=(min(pruner.steps / steps, 1.0), pruner.sparsity))
    )


def _layers(pruner: "Pruner") -> str:
    if any_sharded(pruner.weights.values()):
        # To count them, all processes would have to ask together.
        return ""
    rows = [
        [name, f"{alive:,}", f"{pruner.weights[name].numel():,}", share(alive, pruner.weights[name].numel())]
        for name, alive in count_each(pruner.masks).items()
    ]
    return folded_if_long(f"{len(rows)} layers", rows, table(["layer", "alive", "weights", "density"], rows))

"""The figure of sparsity by layer."""

import math
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.patches import Patch

from asni.figures import style
from asni.figures.distributions import Layer, Place, layers, places
from asni.runs import reading

_STAGES = [style.SKY, style.VERMILLION, style.GREEN, style.PURPLE, style.ORANGE, style.BLUE]
_OPENS, _SKIP = "//////", "xxxxxx"


def layer_sparsity(run: str | Path) -> style.Figure:
    """Draw the sparsity of each layer as bars (Fig. 5).

    In a ResNet the stages are coloured; the first convolution of each stage and the skip connections are hatched. The
    legend has the sparsity of the whole network, and how many of the dense network's multiplications (MACs) are left,
    if the run recorded it.

    >>> from asni import figures
    >>> figures.layer_sparsity("runs/digits-fc/seed-0/asni-1")
    <Figure size 320x270 with 1 Axes>
    """
    found = layers(*reading.masked_weights(Path(run)))
    placed = places([layer.name for layer in found])
    network = 1 - sum(layer.survivors for layer in found) / sum(layer.weights for layer in found)
    width = min(style.PAGE_WIDTH, 2.4 + 0.4 * len(found))
    with style.applied():
        figure = style.Figure(figsize=(width, 2.7), layout="constrained")
        axes = figure.subplots()
        axes.bar(
            range(1, len(found) + 1),
            [100 * layer.sparsity for layer in found],
            0.82,
            color=stage_colours(placed),
            hatch=[_SKIP if place.skip else _OPENS if place.opens else "" for place in placed],
            edgecolor="white",
            linewidth=0,
        )
        label = f"whole network {100 * network:.1f} %" + _macs_left(Path(run))
        axes.axhline(100 * network, color=style.BLACK, linewidth=0.8, linestyle=(0, (4, 2)), label=label)
        axes.set(ylabel="pruned weights (%)", xlim=(0.4, len(found) + 0.6), ylim=(0, 100))
        style.grid(axes)
        _name_layers(axes, found)
        _name_stages(axes, placed)
        _explain_hatches(figure, axes, placed)
    return figure


def _macs_left(run: Path) -> str:
    """The MAC density after the last epoch, if it is known."""
    columns = reading.metrics(run)
    share = columns["mac_density"][-1] if "mac_density" in columns else math.nan
    return "" if math.isnan(share) else f", {100 * share:.3g} % of its MACs left"


def stage_colours(placed: Sequence[Place]) -> list[str]:
    """One colour per layer: that of its stage, black outside the stages, blue in a network without stages."""
    stages = sorted({place.stage for place in placed if place.stage is not None})
    outside = style.BLACK if stages else style.BLUE
    return [outside if p.stage is None else _STAGES[stages.index(p.stage) % len(_STAGES)] for p in placed]


def _name_layers(axes: Axes, found: Sequence[Layer]) -> None:
    if len(found) > 24:
        axes.set_xlabel("layer")
        axes.set_xticks([1, *range(5, len(found) + 1, 5)])
    else:
        axes.set_xticks(range(1, len(found) + 1), _short_names([layer.name for layer in found]))
        if len(found) > 6:
            axes.tick_params(axis="x", labelrotation=40)
            for label in axes.get_xticklabels():
                label.set(horizontalalignment="right", rotation_mode="anchor")
        for number, layer in enumerate(found, 1):
            percent = 100 * layer.sparsity
            # On white: unreadable on hatches and on some colours.
            box = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}
            axes.text(number, 3 if percent > 10 else percent + 2, f"{percent:.1f}", ha="center", fontsize=6, bbox=box)


def _short_names(names: Sequence[str]) -> list[str]:
    """The last parts of the names if these are unique, shortened to fit under a bar."""
    parts = [name.rsplit(".", 1)[-1] for name in names]
    return [style.plain(style.shortened(name, 14)) for name in (parts if len({*parts}) == len(names) else names)]


def _name_stages(axes: Axes, placed: Sequence[Place]) -> None:
    numbered = enumerate(placed, 1)
    for stage, members in groupby(numbered, key=lambda pair: pair[1].stage):
        numbers = [number for number, _ in members]
        if stage is not None:
            middle = (numbers[0] + numbers[-1]) / 2
            at = axes.get_xaxis_transform()
            axes.text(middle, 1.02, f"stage {stage}", transform=at, ha="center", fontsize=7)


def _explain_hatches(figure: style.Figure, axes: Axes, placed: Sequence[Place]) -> None:
    handles = axes.get_legend_handles_labels()[0]
    kinds = [
        (_OPENS, "first of a stage", any(p.opens for p in placed)),
        (_SKIP, "skip connection", any(p.skip for p in placed)),
    ]
    handles += [
        Patch(facecolor=style.GREY, edgecolor="white", linewidth=0, hatch=h, label=k) for h, k, used in kinds if used
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=3)

"""The page: what was collected as data, between a style and scripts that come with the package."""

import base64
import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from importlib.resources import files
from typing import Any

from asni.distributions import Histogram, Layer
from asni.errors import AsniError
from asni.figures.style import Look, looks, title
from asni.recipes import Recipe
from asni.report.collecting import RESULTS, Collection, ShownRun
from asni.report.commands import command
from asni.studies import VARIANTS

MOST_BYTES = 5_000_000
_BINS = (80, 40, 20)  # of a layer's histogram: as fine as the page's size allows
_SHOWN_SHARE = 0.999  # of a layer's weights: a few far ones would press the others into one bar
_MOST_EPOCHS = 100_000  # a browser draws them as one path
_SCRIPTS = ("elements.js", "chart.js", "tables.js", "layers.js", "schedule.js", "page.js")
_CURVES = ("epoch", "accuracy", "sparsity")


def page(collection: Collection, *, version: str | None = None) -> str:
    """The HTML file. A page with a `version` asks its server for a newer one."""
    for bins in _BINS:
        html = _filled(_data(collection, bins, version))
        if len(html.encode()) < MOST_BYTES:
            return html
    raise AsniError(
        f"a page of {len(collection.runs)} runs would have more than {MOST_BYTES:,} bytes. "
        "Report on one of the directories below, such as that of a recipe or a seed."
    )


def _filled(data: Mapping[str, Any]) -> str:
    room = files(__package__).joinpath("page")
    style = room.joinpath("report.css").read_text(encoding="utf-8")
    script = "\n".join(room.joinpath(name).read_text(encoding="utf-8") for name in _SCRIPTS)
    # Inside a script element `<` could end it; \u003c is the same character to JSON.
    text = json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    html = room.joinpath("report.html").read_text(encoding="utf-8")
    parts = {
        "STYLE_HASH": _content_hash(style),
        "SCRIPT_HASH": _content_hash(script),
        "STYLE": style,
        "SCRIPT": script,
        "DATA": text,
    }
    # The data come last: what they hold is never looked through for a place to fill.
    for place, filling in parts.items():
        html = html.replace(f"{{{{{place}}}}}", filling)
    return html


def _content_hash(text: str) -> str:
    """The browser runs what has this hash and nothing else."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _data(collection: Collection, bins: int, version: str | None) -> dict[str, Any]:
    groups: dict[str, list[ShownRun]] = {}
    for run in collection.runs:
        # Two recipes of one name that differ are two groups, so that no table mixes them.
        groups.setdefault(run.recipe.model_dump_json(), []).append(run)
    return {
        "name": collection.name,
        "version": version,
        "warnings": collection.warnings,
        "groups": [_group(sorted(own, key=_place), bins) for own in groups.values()],
    }


def _place(run: ShownRun) -> tuple[int, str, int, str]:
    """The paper's variants in the paper's order, then the other methods by name."""
    variants = list(VARIANTS)
    known = variants.index(run.stage) if run.stage in variants else len(variants)
    return known, run.stage, run.seed, run.path


def _group(runs: list[ShownRun], bins: int) -> dict[str, Any]:
    recipe = runs[0].recipe
    training = recipe.training
    stages = list(dict.fromkeys(run.stage for run in runs))
    return {
        "recipe": recipe.variant_name,
        "title": recipe.title,
        "facts": {
            "network": recipe.network,
            "dataset": recipe.dataset,
            "epochs": training.epochs,
            "batch size": training.batch_size,
            "optimiser": f"{training.optimizer}, learning rate {training.lr:g} ({training.lr_policy})",
            "changed": ", ".join(f"{k} {v}" for k, v in recipe.overrides.model_dump(exclude_none=True).items()),
        },
        "paper_nonzeros": recipe.paper.nonzeros,
        "stages": {
            stage: {"title": title(stage), **_drawn(look)} for stage, look in zip(stages, looks(stages), strict=True)
        },
        "schedule": _schedule(recipe, runs),
        "runs": [_run(run, bins) for run in runs],
    }


def _schedule(recipe: Recipe, runs: Iterable[ShownRun]) -> dict[str, Any] | None:
    """What the page draws the schedule from; None for one that cannot be drawn."""
    epochs = recipe.training.epochs
    try:
        alpha = recipe.schedule.alpha(epochs)
    except ArithmeticError:
        # A curve that rises only after the last epoch has no height that would reach the sparsity before.
        return None
    if not math.isfinite(alpha) or epochs > _MOST_EPOCHS:
        return None
    return {"epochs": epochs, "alpha": alpha, "beta": recipe.pruning.beta, "gamma": recipe.gamma, **_sizes(runs)}


def _drawn(look: Look) -> dict[str, Any]:
    return {"colour": look.colour, "dashes": [] if isinstance(look.dashes, str) else [2 * d for d in look.dashes[1]]}


def _sizes(runs: Iterable[ShownRun]) -> dict[str, int]:
    """How many parameters the network has and how many of them can be pruned, from what a sparse run counted."""
    for run in runs:
        nonzeros, sparsity, total = (run.result[key] for key in ("nonzeros", "sparsity", "total_sparsity"))
        if 0 < sparsity <= 1 and 0 < total < 1 and nonzeros > 0:
            parameters = round(nonzeros / (1 - total))
            return {"parameters": parameters, "prunable": round(parameters * total / sparsity)}
    return {}


def _run(run: ShownRun, bins: int) -> dict[str, Any]:
    train, note = command(run)
    return {
        "path": run.path,
        "stage": run.stage,
        "seed": run.seed,
        "precision": run.precision,
        "finished": run.finished,
        "epochs_done": run.epochs_done,
        **{key: _shown(run.result[key]) for key in RESULTS},
        "paper": getattr(run.recipe.paper, run.stage.replace("-", "_")) if run.stage in VARIANTS else None,
        "curves": {key: [_curve_point(v) for v in run.metrics[key]] for key in _CURVES if key in run.metrics},
        "layers": [_layer(layer, bins) for layer in run.layers],
        "command": train,
        "note": note,
        "environment": {str(key): "none" if value is None else str(value) for key, value in run.environment.items()},
    }


def _shown(value: float) -> float | str:
    return "NaN" if math.isnan(value) else value


def _curve_point(value: float) -> float | None:
    """Six digits: more than any screen shows, and half the bytes."""
    return None if math.isnan(value) else float(f"{value:.6g}")


def _layer(layer: Layer, bins: int) -> dict[str, Any]:
    shown = _merged_to(layer.histogram, bins)
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


def _merged_to(histogram: Histogram, bins: int) -> Histogram:
    """The bins that hold nearly all weights, merged until there are at most so many; every count stays exact."""
    reach = histogram.reach(_SHOWN_SHARE)
    width = histogram.width
    while 2 * math.ceil(reach / width) > bins:
        width *= 2
    return histogram.merged(width).within(math.ceil(reach / width) * width)

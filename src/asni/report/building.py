"""Build the page from the collected runs and the style and scripts of this package."""

import base64
import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from asni.errors import AsniError, UsageError
from asni.figures.style import GREY, Look, looks
from asni.methods import VARIANTS, title
from asni.pruning.schedules import Sigmoid
from asni.recipes import Recipe
from asni.recipes.prunings import prunings
from asni.recipes.recipe import is_path
from asni.recipes.sections import BUDGETS
from asni.report.collecting import MAC_DENSITY, RESULTS, Collection, ShownRun
from asni.report.commands import command
from asni.report.marks import marks
from asni.report.notices import grouped
from asni.report.story import story
from asni.report.weights import distribution, layers
from asni.runs import reading

MOST_BYTES = 5_000_000
_BINS = (80, 40, 20)  # of a histogram: as fine as the page's size allows
_MOST_EPOCHS = 10_000  # of a schedule, which is solved for alpha
_MOST_PRUNINGS = 100_000  # which a slider computes again at each move
_MOST_DETAILS = 1000
_STYLES = ("report.css", "story.css", "curves.css")
_SCRIPTS = (
    "elements.js",
    "looks.js",
    "marks.js",
    "chart.js",
    "labels.js",
    "edges.js",
    "tables.js",
    "means.js",
    "story.js",
    "ranking.js",
    "epochs.js",
    "multiples.js",
    "training.js",
    "sizes.js",
    "distribution.js",
    "places.js",
    "layers.js",
    "schedule.js",
    "following.js",
    "page.js",
)
_INITIAL = "initial"
_CURVE = {"alpha", "sparsity", "beta", "every"}  # of the schedule; gamma may follow from the epochs
_CHOICE = {"score", "floor", "include", "exclude", *BUDGETS}  # of weights
_CURVES = ("epoch", "accuracy", "sparsity")


def page(collection: Collection, *, version: str | None = None) -> str:
    """Return the page as HTML; with a `version` it polls its server and reloads when that changes."""
    for bins in _BINS:
        html = _filled(_data(collection, bins, version))
        if len(html.encode()) < MOST_BYTES:
            return html
    raise AsniError(
        f"a page of {len(collection.runs)} runs would be larger than {MOST_BYTES:,} bytes. "
        "Choose a subdirectory, such as that of one recipe or one seed."
    )


def size(collection: Collection) -> int:
    """The bytes that the runs take at least."""
    return len(_json(_data(collection, min(_BINS), None, packed=False)))


def fits(collection: Collection) -> bool:
    """Whether the page becomes small enough."""
    return len(_filled(_data(collection, min(_BINS), None)).encode()) < MOST_BYTES


def _filled(data: Mapping[str, Any]) -> str:
    # The data come last, so that a placeholder inside them is never filled.
    return _frame().replace("{{DATA}}", _json(data))


def _json(data: Mapping[str, Any]) -> str:
    # Inside a script element `<` could end it; \u003c is the same character to JSON.
    return json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


@cache
def _frame() -> str:
    """The page without its data."""
    folder = files(__package__).joinpath("page")
    style = "\n".join(folder.joinpath(name).read_text(encoding="utf-8") for name in _STYLES)
    script = "\n".join(folder.joinpath(name).read_text(encoding="utf-8") for name in _SCRIPTS)
    html = folder.joinpath("report.html").read_text(encoding="utf-8")
    parts = {
        "STYLE_HASH": _content_hash(style),
        "SCRIPT_HASH": _content_hash(script),
        "STYLE": style,
        "SCRIPT": script,
    }
    for place, filling in parts.items():
        html = html.replace(f"{{{{{place}}}}}", filling)
    return html


def _content_hash(text: str) -> str:
    """The hash by which the page's Content-Security-Policy allows this style or script and no other."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _data(collection: Collection, bins: int, version: str | None, *, packed: bool = True) -> dict[str, Any]:
    groups: dict[str, list[ShownRun]] = {}
    families: dict[str, list[ShownRun]] = {}
    for run in collection.runs:
        # Different recipes with the same name are separate groups, so that no table mixes them; so is other data.
        groups.setdefault(f"{run.recipe.model_dump_json()} {run.own_data}", []).append(run)
        families.setdefault(_family(run), []).append(run)
    # One chart shows a whole family, so its looks are chosen together.
    stages = {family: _stages(sorted(own, key=_place)) for family, own in families.items()}
    return {
        "name": collection.name,
        "version": version,
        "notices": _notices(collection),
        "groups": [
            {
                "family": list(families).index(_family(own[0])),
                **_group(sorted(own, key=_place), stages[_family(own[0])], bins),
                "story": story(sorted(own, key=_place), packed=packed),
            }
            for own in groups.values()
        ],
    }


def _notices(collection: Collection) -> list[dict[str, Any]]:
    return [
        {"note": group.is_note, "summary": group.summary, "details": _listed(group.details)}
        for group in grouped(collection.notices)
    ]


def _listed(details: Sequence[str]) -> list[str]:
    more = len(details) - _MOST_DETAILS
    return [*details[:_MOST_DETAILS], *([f"and {more:,} more"] if more > 0 else [])]


def _family(run: ShownRun) -> str:
    """A key that is equal for recipes that differ only in sparsity; one chart over sizes shows all of them."""
    recipe = run.recipe
    same = {"alpha": None, "sparsity": None, "epochs": None, "gamma": recipe.gamma}
    pruning = recipe.pruning.model_copy(update=same)
    overrides = recipe.overrides.model_copy(update={"alpha": None, "sparsity": None})
    same_but_sparsity = recipe.model_copy(update={"pruning": pruning, "overrides": overrides})
    return f"{same_but_sparsity.model_dump_json()} {run.own_data}"


def _place(run: ShownRun) -> tuple[int, str, int, str]:
    """Sort key: the paper's variants in the paper's order, then the other methods by name."""
    known = VARIANTS.index(run.stage) if run.stage in VARIANTS else len(VARIANTS)
    return known, run.stage, run.seed, run.path


def _stages(runs: Iterable[ShownRun]) -> dict[str, dict[str, Any]]:
    last = {run.stage: run.is_last for run in runs}
    methods_first = sorted(last, key=lambda stage: not last[stage])  # seven of them have a hue each
    styles = dict(zip(methods_first, map(_style, looks(methods_first)), strict=True))
    return {stage: {"title": title(stage), "last": is_last, **styles[stage]} for stage, is_last in last.items()}


def _group(runs: list[ShownRun], stages: Mapping[str, Any], bins: int) -> dict[str, Any]:
    recipe = runs[0].recipe
    training = recipe.training
    return {
        "recipe": recipe.variant_name,
        "title": recipe.title,
        "facts": {
            "network": recipe.network,
            "dataset": _dataset(runs[0]),
            "epochs": training.epochs,
            "batch size": training.batch_size,
            "optimiser": f"{training.optimizer}, learning rate {training.lr:g} ({training.lr_policy})",
            "pruning": _in_words(recipe.pruning.model_dump(include=_CHOICE)),
            "schedule": _curve_in_words(recipe),
            "changed": _in_words(recipe.overrides.model_dump()),
        },
        "paper_nonzeros": recipe.paper.nonzeros,
        "stages": {run.stage: stages[run.stage] for run in runs},
        "schedule": _schedule(recipe, runs),
        # Grey: no method may look like the initial network, which is in the same chart.
        "initial": {"title": title(_INITIAL), **_style(*looks([_INITIAL])), "colour": GREY},
        "distribution": distribution(runs, bins),
        "runs": [_run(run, bins) for run in runs],
    }


def _dataset(run: ShownRun) -> str:
    """The name of the data; of a path only its last part, since a shared page must not reveal the rest."""
    dataset = run.recipe.dataset
    name = Path(dataset).name if is_path(dataset) else dataset
    return name if run.own_data is None else f"{name} (checksum {run.own_data.get('checksum')})"


def _in_words(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in settings.items() if value is not None)


def _curve_in_words(recipe: Recipe) -> str:
    if recipe.pruning.schedule == "cubic":
        return f"cubic, {_in_words(recipe.pruning.model_dump(include={'alpha', 'sparsity', 'every'}))}"
    return _in_words({**recipe.pruning.model_dump(include=_CURVE), "gamma": f"{recipe.gamma:g}"})


def _schedule(recipe: Recipe, runs: Sequence[ShownRun]) -> dict[str, Any] | None:
    """The data for the schedule chart, whose sliders are those of a sigmoid; None if it cannot be drawn."""
    epochs, sizes = recipe.training.epochs, _sizes(runs)
    steps = reading.steps_per_epoch(recipe, runs[0].own_data)
    if steps is None or max(epochs, recipe.pruning.epochs or 0) > _MOST_EPOCHS:
        return None
    try:
        planned = prunings(recipe, steps, sizes.get("prunable"))
    except (ArithmeticError, UsageError):
        # A curve that rises only after the last epoch does not reach the sparsity at any height.
        return None
    sigmoid, alpha = planned.schedule, planned.alpha
    if not isinstance(sigmoid, Sigmoid) or alpha is None or not math.isfinite(alpha) or planned.count > _MOST_PRUNINGS:
        return None
    curve = {"alpha": alpha, "beta": sigmoid.beta, "gamma": recipe.gamma, "least": sigmoid.least}
    *before, final = [100 * sparsity for sparsity in planned.sparsities]
    times = {"epochs": epochs, "steps_per_epoch": steps, "every": planned.every}
    # Exact at the end, where it says how many weights are left.
    return {**times, **curve, "planned": [*map(_curve_point, before), final], **sizes}


def _style(look: Look) -> dict[str, Any]:
    dashes = [] if isinstance(look.dashes, str) else [2 * length for length in look.dashes[1]]
    return {"colour": look.colour, "dashes": dashes, "marker": look.marker}


def _sizes(runs: Iterable[ShownRun]) -> dict[str, int]:
    """The numbers of all parameters and of prunable ones, derived from the counts of a sparse run."""
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
        "marks": marks(run),
        **{key: _shown(run.result[key]) for key in RESULTS},
        # Earlier runs lack it, which is no NaN of a training.
        MAC_DENSITY: _curve_point(run.result[MAC_DENSITY]),
        "paper": run.recipe.paper.accuracy(run.stage) if run.stage in VARIANTS else None,
        "curves": _curves(run),
        "layers": layers(run.layers, bins),
        "command": train,
        "note": note,
        "environment": {str(key): "none" if value is None else str(value) for key, value in run.environment.items()},
    }


def _curves(run: ShownRun) -> dict[str, list[float | None]]:
    """The columns over epochs. A network whose loss is NaN is only said to have an accuracy: that of one class."""
    columns = {key: run.metrics[key] for key in _CURVES}
    if "loss" in run.metrics:
        columns["accuracy"] = np.where(np.isnan(run.metrics["loss"]), math.nan, columns["accuracy"])
    return {key: [_curve_point(value) for value in values] for key, values in columns.items()}


def _shown(value: float) -> float | str:
    return "NaN" if math.isnan(value) else value


def _curve_point(value: float) -> float | None:
    """Six significant digits: more than a screen can show, in half the bytes."""
    return None if math.isnan(value) else float(f"{value:.6g}")

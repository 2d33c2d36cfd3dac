"""What a reader must know before comparing a run: that it was shortened, diverged, is at chance, or has not ended."""

import math
from functools import cache

from asni.datasets import INFO
from asni.recipes import SIZES, Recipe, load
from asni.report.collecting import ShownRun

SHORTENED, DIVERGED, AT_CHANCE, UNFINISHED = "shortened", "diverged", "at chance", "unfinished"


def marks(run: ShownRun) -> list[str]:
    """The run's marks; what the run does not record is not judged."""
    diverged = _diverged(run)
    found = {
        SHORTENED: is_shortened(run.recipe, run.stage),
        DIVERGED: diverged,
        AT_CHANCE: run.finished and not diverged and _is_at_chance(run),
        UNFINISHED: not run.finished,
    }
    return [mark for mark, holds in found.items() if holds]


def own_epochs(recipe: Recipe) -> int | None:
    """The epochs of the recipe before any change; None if they are not recorded."""
    if recipe.overrides.epochs is None:
        return recipe.training.epochs
    return _published(recipe.name).training.epochs if recipe.name in SIZES else recipe.pruning.epochs


def is_shortened(recipe: Recipe, stage: str) -> bool:
    """Whether a round trains for fewer epochs, or for fewer steps in each, than its recipe says."""
    return recipe.training_of(stage).epochs < (own_epochs(recipe) or 0) or _is_cut_within_epochs(recipe)


def _is_cut_within_epochs(recipe: Recipe) -> bool:
    steps, images = recipe.overrides.steps_per_epoch, INFO[recipe.dataset].train if recipe.dataset in INFO else 0
    return steps is not None and steps * recipe.training.batch_size < images


@cache
def _published(name: str) -> Recipe:
    return load(name)


def _diverged(run: ShownRun) -> bool:
    # A network of NaN weights still has an accuracy: that of always choosing one class.
    last = [run.metrics[key][-1] for key in ("loss", "accuracy") if key in run.metrics]
    return any(math.isnan(value) for value in (*last, *([run.result["accuracy"]] if run.finished else [])))


def _is_at_chance(run: ShownRun) -> bool:
    """Within half of the accuracy of guessing, and within 5 points of it: with two classes 75 % is not a guess."""
    known = INFO.get(run.recipe.dataset)
    classes = known.classes if known else (run.own_data or {}).get("classes")
    if not isinstance(classes, int) or classes < 2:
        return False
    chance = 100 / classes
    return run.result["accuracy"] <= chance + min(chance / 2, 5)

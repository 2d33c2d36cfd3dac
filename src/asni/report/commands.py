"""The command that trains a run again, as its request tells it."""

import shlex

from asni.recipes import SIZES, Recipe, load
from asni.report.collecting import ShownRun


def command(run: ShownRun) -> tuple[str | None, str]:
    """The command, and what it does not say by itself; some rounds are part of a method and have none of their own."""
    if run.method == "dense" and not run.is_last:
        return None, "The first steps of the dense training, which a method that rewinds to an early step begins with."
    own_file = run.recipe.name not in SIZES
    words = ["asni", "train", f"./{run.recipe.name}.toml" if own_file else run.recipe.name]
    notes = ["The recipe is a file of its own: put its path there."] if own_file else _changed(run.recipe)
    if checksum := run.settings.get("packed_file"):
        words += ["--from", "FILE.asni"]
        notes.append(f"The packed file is the one whose content has the checksum {checksum}.")
    else:
        words += ["--method", run.method]
        if not run.is_last:
            notes.append("This is one of the trainings that the method needs.")
    words += ["--seed", str(run.seed), *run.recipe.overrides.arguments()]
    words += [] if run.precision == "fp32" else ["--precision", run.precision]
    return shlex.join(words), " ".join(notes)


def _changed(recipe: Recipe) -> list[str]:
    """Whether the recipe of that name is still the one that was trained."""
    same = load(recipe.name).override(**recipe.overrides.model_dump()) == recipe
    return [] if same else [f"The recipe {recipe.name} has changed since: the command trains the present one."]

"""The `asni train` command that repeats a run, built from its request."""

import shlex

from asni.recipes import SIZES, Recipe, load
from asni.recipes.sections import PRUNING_OVERRIDES
from asni.report.collecting import ShownRun


def command(run: ShownRun) -> tuple[str | None, str]:
    """Return the command that repeats `run` (None for the first steps of a dense training) and a note."""
    if run.method == "dense" and not run.is_last:
        return None, "The first steps of the dense training, used by methods that rewind to an early step."
    own_file = run.recipe.name not in SIZES
    words = ["asni", "train", f"./{run.recipe.name}.toml" if own_file else run.recipe.name]
    notes = ["The recipe is a file: replace the path with that of your copy."] if own_file else _changed(run.recipe)
    overrides = run.recipe.overrides
    if checksum := run.settings.get("packed_file"):
        if own := overrides.model_dump(include=set(PRUNING_OVERRIDES), exclude_none=True):
            # The command does not accept these, so they come from the recipe in the file.
            del words[2:]
            overrides = overrides.model_copy(update=dict.fromkeys(own))
        words += ["--from", "FILE.asni"]
        notes.append(f"FILE.asni is the packed file whose content has the checksum {checksum}.")
    else:
        words += ["--method", run.method]
        if not run.is_last:
            notes.append(f"This run is one of the trainings of {run.method}; the command runs all of them.")
    words += ["--seed", str(run.seed), *overrides.arguments()]
    words += [] if run.precision == "fp32" else ["--precision", run.precision]
    return shlex.join(words), " ".join(notes)


def _changed(recipe: Recipe) -> list[str]:
    """A note if the recipe of that name is no longer the one that was trained."""
    same = load(recipe.name).override(**recipe.overrides.model_dump()) == recipe
    return [] if same else [f"The recipe {recipe.name} has changed since this run; the command trains the current one."]

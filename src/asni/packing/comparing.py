"""The cost of rounding: the accuracy of a run's weights before and after packing."""

from pathlib import Path

from asni.packing.memory import UNLIMITED
from asni.packing.rebuilding import rebuild, require_trust


def accuracy_before_and_after(run: Path, packed: Path, *, trust_code: bool = False) -> tuple[float, float]:
    """The test accuracy in percent of the run's own weights, and of the packed ones."""
    from asni import datasets
    from asni.runs import reading
    from asni.runs.run import Run
    from asni.training.evaluation import accuracy

    recipe = reading.recipe(run)
    require_trust(recipe, trust_code, str(run))
    dataset = datasets.load(recipe.dataset, recipe.dataset_options)
    model = rebuild(packed, trust_code=trust_code, max_memory=UNLIMITED)
    after = accuracy(model, dataset)
    model.load_state_dict(Run(run, {}).weights)
    return accuracy(model, dataset), after

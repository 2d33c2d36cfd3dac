"""The commands that list recipes and methods, and show a plan before training."""

from dataclasses import asdict
from typing import Any

from asni.cli.grouping import with_options
from asni.cli.options import AsJson, Changes, RecipeName
from asni.cli.output import print_json, print_table
from asni.errors import printable
from asni.methods import METHODS, TASKS
from asni.recipes import SIZES, load
from asni.recipes.own_code import is_code
from asni.studies.plan import outline
from asni.studies.plan import plan as make_plan
from asni.studies.tables import hundredths, number

MOST_ROWS = 1000


def recipes(as_json: AsJson = False) -> None:
    """List the recipes, with their sizes and their rows in the paper.

    Example: asni recipes
    """
    listed = [(recipe := load(name), outline(recipe, size)) for name, size in SIZES.items()]
    if as_json:
        print_json([facts for _, facts in listed])
        return
    print_table(
        ["recipe", "parameters", "epochs", "steps", "batch", "nonzeros", "paper's nonzeros", "paper's row"],
        [
            [
                recipe.name,
                *(number(facts[key]) for key in ("parameters", "epochs", "steps_per_epoch", "batch_size", "nonzeros")),
                number(recipe.paper.nonzeros),
                number(recipe.paper.row),
            ]
            for recipe, facts in listed
        ],
    )


def methods(as_json: AsJson = False) -> None:
    """List the methods, with the paper and the number of trainings of each.

    Example: asni methods
    """
    if as_json:
        shown = ("name", "title", "task", "paper", "imagenet", "needs")
        print_json(
            [{**{key: asdict(each)[key] for key in shown}, "trainings": each.trainings} for each in METHODS.values()]
        )
        return
    print_table(
        ["method", "title", "paper", "task", "trainings", "ImageNet %"],
        [
            [
                each.name,
                each.title,
                each.paper,
                number(each.task),
                "varies" if each.trainings is None else number(each.trainings),
                hundredths(each.imagenet),
            ]
            for each in METHODS.values()
        ],
        names=(True, True, True, False, False, False),
    )
    print(TASKS)
    print("ImageNet %: top-1 accuracy in the paper, for ResNet-50 with 80 % of its parameters pruned.")


def _some(schedule: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """At most a thousand epochs of it, evenly spaced up to the last one; more take minutes to lay out as a table."""
    every = -(-len(schedule) // MOST_ROWS)
    return schedule[::-every][::-1]


@with_options
def plan(recipe: RecipeName, changes: Changes, as_json: AsJson = False) -> None:
    """Show the size, the steps and the pruning schedule of a recipe, without training.

    Example: asni plan mnist-fc --epochs 10
    """
    asked = load(recipe).override(**changes)
    facts = make_plan(asked)
    if as_json:
        print_json(facts)
        return
    print(printable(f"{facts['recipe']}: {facts['network']} on {facts['dataset']}"))
    print(f"{facts['parameters']:,} parameters, {facts['prunable']:,} of them prunable")
    print(f"{facts['epochs']} epochs of {facts['steps_per_epoch']:,} steps, batches of {facts['batch_size']}")
    left_out = "activations and the optimiser's state" if is_code(asked.training.optimizer) else "activations"
    print(f"{facts['memory_bytes'] / 2**20:,.1f} MiB in each process, without {left_out}")
    alpha = "too high for a number" if facts["alpha"] is None else f"{facts['alpha']:.5g} %"
    print(f"alpha {alpha}, beta {facts['beta']:g}, gamma {facts['gamma']:g}, least {facts['least']:g}")
    print_table(
        ["after epoch", "sparsity", "nonzeros"],
        [[number(at["epoch"] + 1), f"{at['sparsity']:.4f}", number(at["nonzeros"])] for at in _some(facts["schedule"])],
    )
    print(
        f"ends with {facts['nonzeros']:,} nonzeros: {facts['sparsity']:.2%} of the prunable weights are pruned, "
        f"{facts['total_sparsity']:.2%} of all parameters"
    )
    print(
        f"lottery tickets of this size take {facts['lottery_prunings']} prunings of {facts['lottery_rate']:.1%}; "
        f"rewound ones return to step {facts['lottery_rewind']:,}"
    )
    if facts["paper"]["nonzeros"] is not None:
        print(f"the paper: {facts['paper']['nonzeros']:,} nonzeros")
    for point in facts["open_points"]:
        print(f"- {point}")

"""The commands that list recipes and methods, and show a plan before training."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, Any

import typer

from asni.cli.curve import curve
from asni.cli.grouping import with_options
from asni.cli.options import AsJson, Changes, RecipeName
from asni.cli.output import has_glyphs, print_json, print_table, say, terminal_width
from asni.display import estimate, on_stderr
from asni.methods import METHODS, TASK_TITLES, VARIANTS
from asni.recipes import SIZES, Recipe, load
from asni.recipes.own_code import is_code
from asni.studies.plan import outline
from asni.studies.plan import plan as make_plan
from asni.studies.tables import Column, Table, hundredths, number, percent

EVERY = 10
MOST_ROWS = 100

RECIPES = (
    Column("recipe", "recipe", str, is_name=True),
    Column("parameters", "parameters", expendable=1),
    Column("epochs", "epochs", expendable=2),
    Column("steps_per_epoch", "steps", expendable=4),
    Column("batch_size", "batch", expendable=6),
    Column("nonzeros", "nonzeros"),
    Column("paper_nonzeros", "paper's nonzeros", expendable=3),
    Column("paper_row", "paper's row", expendable=5),
)
METHOD_COLUMNS = (
    Column("name", "method", str, is_name=True),
    Column("title", "title", str, is_name=True, expendable=4),
    Column("does", "what it does", str, is_name=True),
    Column("paper", "paper", str, is_name=True, expendable=2),
    Column("trainings", "trainings", lambda count: "varies" if count is None else number(count), expendable=1),
    Column("imagenet", "ImageNet %", hundredths, expendable=3),
)
SCHEDULE = (
    Column("after", "after epoch"),
    Column("sparsity", "sparsity", lambda share: f"{share:.4f}"),
    Column("nonzeros", "nonzeros"),
)
WITHIN_BUDGET = Column("mac_density", "MACs %", percent)


def recipes(as_json: AsJson = False) -> None:
    """List the recipes, and the rows of the paper that they are.

    Example: asni recipes
    """
    listed = [(recipe := load(name), outline(recipe, size)) for name, size in SIZES.items()]
    if as_json:
        print_json([facts for _, facts in listed])
        return
    rows = [
        {**facts, "paper_nonzeros": recipe.paper.nonzeros, "paper_row": recipe.paper.row} for recipe, facts in listed
    ]
    print_table(Table(rows, RECIPES))


def methods(as_json: AsJson = False) -> None:
    """List the methods: what each does, and what it costs.

    Example: asni methods
    """
    shown = ("name", "title", "task", "does", "paper", "imagenet", "needs")
    rows = [{**{key: asdict(each)[key] for key in shown}, "trainings": each.trainings} for each in METHODS.values()]
    if as_json:
        print_json(rows)
        return
    rows.sort(key=lambda row: row["task"])
    tasks = [row["task"] for row in rows]
    sections = {tasks.index(task): f"Task {task}: {title}" for task, title in TASK_TITLES.items()}
    note = "ImageNet %: top-1 accuracy in the paper, for ResNet-50 with 80 % of its parameters pruned."
    print_table(Table(rows, METHOD_COLUMNS, [note]), sections)


@with_options
def plan(
    recipe: RecipeName,
    changes: Changes,
    timed: Annotated[
        bool, typer.Option("--time", help="Time a few steps, and say how long the training takes here.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show the sizes and the schedule of a recipe before training.

    Nothing is trained, fetched or written.

    Examples:
      asni plan mnist-fc --epochs 10
      asni plan cifar10-vgg16 --time
    """
    asked = load(recipe).override(**changes)
    with on_stderr().status(f"Planning {recipe}"):
        facts = make_plan(asked)
    if timed:
        facts["seconds"] = _timed(asked)
    if as_json:
        print_json(facts)
    else:
        _print_plan(asked, facts)


def _timed(recipe: Recipe) -> dict[str, float]:
    with on_stderr().status("Timing a few steps"):
        from asni.studies.timing import seconds

        return seconds(recipe)


def _print_plan(recipe: Recipe, facts: dict[str, Any]) -> None:
    say(f"{facts['recipe']}: {facts['network']} on {facts['dataset']}", style="bold")
    say(f"{facts['parameters']:,} parameters, {facts['prunable']:,} of them prunable")
    epochs, steps = _count(facts["epochs"], "epoch"), _count(facts["steps_per_epoch"], "step")
    say(f"{epochs} of {steps}, batches of {facts['batch_size']}")
    left_out = "activations and the optimiser's state" if is_code(recipe.training.optimizer) else "activations"
    say(f"{facts['memory_bytes'] / 2**20:,.1f} MiB in each process, without {left_out}")
    say(_curve_in_words(facts))
    if "seconds" in facts:
        say(_in_words(facts["seconds"], facts["batch_size"]), style="bold")
    say("")
    _print_curve(facts["schedule"])
    say("")
    columns = SCHEDULE if facts["mac_budget"] is None else (*SCHEDULE, WITHIN_BUDGET)
    print_table(Table([{"after": at["epoch"] + 1, **at} for at in _some(facts["schedule"])], columns))
    say(
        f"ends with {facts['nonzeros']:,} nonzeros: {facts['sparsity']:.2%} of the prunable weights are pruned, "
        f"{facts['total_sparsity']:.2%} of all parameters"
    )
    if facts["macs"] is not None:
        say(_macs_in_words(facts))
    if recipe.pruning.latency is not None or recipe.pruning.speedup is not None:
        say("the budget of time is measured, and refused if it is out of reach, when the training starts")
    say(
        f"lottery tickets of this size take {facts['lottery_prunings']} prunings of {facts['lottery_rate']:.1%}; "
        f"rewound ones return to step {facts['lottery_rewind']:,}"
    )
    if facts["paper"]["nonzeros"] is not None:
        say(f"the paper: {facts['paper']['nonzeros']:,} nonzeros")
    for point in facts["open_points"]:
        say(point, style="dim", lead="- ")


def _curve_in_words(facts: Mapping[str, Any]) -> str:
    """Where ASNI-I prunes, and how far."""
    alpha = "too high for a number" if facts["alpha"] is None else f"{facts['alpha']:.5g} %"
    sigmoid = f"alpha {alpha}, beta {facts['beta']:g}, gamma {facts['gamma']:g}, least {facts['least']:g}"
    shape = sigmoid if facts["curve"] == "sigmoid" else "a cubic curve from 20 to 80 % of the training"
    is_finer = facts["prune_every"] != facts["steps_per_epoch"]
    return f"{shape}, pruned every {_count(facts['prune_every'], 'step')}" if is_finer else shape


def _macs_in_words(facts: Mapping[str, Any]) -> str:
    """The multiplications of an image, and how many of them are left.

    >>> facts = {"macs": 266_200, "nonzeros": 8_335, "mac_density_range": [0.0297, 0.0298], "mac_budget": None}
    >>> _macs_in_words(facts)
    '266,200 multiplications per image; with 8,335 nonzeros from 2.97 % to 2.98 % of them'
    >>> _macs_in_words({**facts, "mac_density_range": [0.02, 0.02], "mac_budget": 0.15})
    '266,200 multiplications per image; with 8,335 nonzeros 2 % of them; at most 15 % by the budget'
    """
    low, high = (f"{100 * share:.3g} %" for share in facts["mac_density_range"])
    span = low if low == high else f"from {low} to {high}"
    budget = "" if facts["mac_budget"] is None else f"; at most {100 * facts['mac_budget']:.3g} % by the budget"
    return f"{facts['macs']:,} multiplications per image; with {facts['nonzeros']:,} nonzeros {span} of them{budget}"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' * (number != 1)}"


def _in_words(seconds: Mapping[str, float], batch: int) -> str:
    """How long a training takes.

    >>> print(_in_words({"images": 8, "training": 5000.0, "investigate": 20_000.0}, 256))
    about 1.4 h here; about 5.6 h for the 4 trainings of `asni investigate` (random data, scaled from 8 of 256 images)
    """
    one, all_of_them = (estimate(seconds[key]) for key in ("training", "investigate"))
    scaled = f", scaled from {seconds['images']} of {batch} images" * (seconds["images"] < batch)
    return (
        f"about {one} here; about {all_of_them} for the {len(VARIANTS)} trainings of `asni investigate` "
        f"(random data{scaled})"
    )


def _print_curve(schedule: list[dict[str, Any]]) -> None:
    """The sparsity over the epochs, its scale on the left and below."""
    glyphs, last = has_glyphs(), f"{len(schedule):,}"
    highest = max(at["sparsity"] for at in schedule)
    width, height = min(50, (terminal_width() or 80) - 12), 7
    lines = curve([at["sparsity"] / highest for at in schedule], width=width, height=height, glyphs=glyphs)
    labels = {0: f"{highest:.1%}", height - 1: "0"}
    for row, line in enumerate(lines):
        say(line, style="cyan", lead=f"{labels.get(row, ''):>7} {'│' if glyphs else '|'}")
    say(f"{'└' if glyphs else '+'}{('─' if glyphs else '-') * width}", lead=" " * 8)
    say(f"1{last:>{width - 1}}", lead=" " * 9)
    say(f"{'sparsity after each epoch':^{width}}".rstrip(), style="dim", lead=" " * 9)


def _some(schedule: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The first epoch, every tenth and the last; of a very long training, fewer."""
    every = EVERY * -(-len(schedule) // (EVERY * MOST_ROWS))
    return [at for at in schedule if at["epoch"] == 0 or (at["epoch"] + 1) % every == 0 or at is schedule[-1]]

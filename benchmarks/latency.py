"""Milliseconds asked for, predicted and got, on networks of the paper: `python -m benchmarks.latency`.

Masks keep the paper's number of nonzeros of Kaiming-normal weights, within a budget of milliseconds: fractions of what
the same number takes without a budget. Those that so many weights cannot meet are left out. Values of the weights that
are left are scaled to the energy of the whole. The predictions are those of tables that were measured before, in the
same process; each finished network is compiled and timed anew. `results/budgets/latency.json` has all rows, and the
table in `docs/budgets.md` is made from it. Remove the tables in the user's cache folder to measure these anew too.
"""

import json
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from asni import networks, recipes
from asni.datasets.info import published_info
from asni.engine.layer_times import layer_times, timed
from asni.engine.machine import processor
from asni.engine.native import choice
from asni.errors import UsageError
from asni.files import write_json
from asni.pruning.budgets import Goal, keep_within, require_possible
from asni.pruning.costs import Budget, Costs
from asni.pruning.layers import prunable
from asni.pruning.masks import Masks, count_each, full_masks
from asni.pruning.scores import magnitude
from benchmarks.tables import digits, fill, percent, read, table

ROOT = Path(__file__).parents[1]
RESULTS, PAGE = ROOT / "results" / "budgets" / "latency.json", ROOT / "docs" / "budgets.md"
RECIPES = {"Conv6": "cifar10-conv6", "ResNet-18": "cifar10-resnet18"}
BATCHES = (1, 64)
FRACTIONS = (1.0, 0.75, 0.5, 0.25)

Row = dict[str, Any]


def run() -> dict[str, float]:
    """What was got, relative to what was asked for."""
    torch.set_num_threads(1)
    rows = {key: row for name in RECIPES for batch in BATCHES for key, row in _rows(name, batch)}
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    machine = {"processor": processor(), "instruction_set": choice().isa, "threads": 1}
    write_json(RESULTS, {**machine, "rows": rows})
    return {f"got / asked, {key}": row["got"] / row["asked"] for key, row in rows.items()}


def _rows(name: str, batch: int) -> Iterator[tuple[str, Row]]:
    recipe = recipes.load(RECIPES[name])
    info = published_info(recipe.dataset)
    torch.manual_seed(0)
    model = networks.build(recipe.network, info.shape, info.classes).eval()
    example = torch.randn(batch, *info.shape)
    assert recipe.paper is not None
    assert recipe.paper.nonzeros is not None
    weights = prunable(model)
    others = sum(each.numel() for each in model.parameters()) - sum(each.numel() for each in weights.values())
    keep = recipe.paper.nonzeros - others
    costs = layer_times(model, example)
    free = _predicted(costs, _masks(weights, Goal(keep, Budget(costs, costs.dense, costs.dense))))
    for fraction in FRACTIONS:
        goal = Goal(keep, Budget(costs, fraction * free, costs.dense))
        try:
            require_possible(goal)
        except UsageError:
            continue
        masks = _masks(weights, goal)
        got = timed(_masked(model, masks), example)
        row = {"asked": goal.budget.limit, "predicted": _predicted(costs, masks), "got": got, "dense": costs.dense}
        yield f"{name}, batch {batch}, {fraction:g} of the free choice", row


def _masks(weights: dict[str, Tensor], goal: Goal) -> Masks:
    return keep_within(weights, magnitude, goal, full_masks(weights))


def _predicted(costs: Costs, masks: Masks) -> float:
    return costs.fixed + sum(costs.layers[name][0].of(count) for name, count in count_each(masks).items())


def _masked(model: nn.Module, masks: Masks) -> nn.Module:
    """The network with these masks; without more energy in what is left, its signal would fade."""
    masked = deepcopy(model)
    with torch.no_grad():
        for name, weight in prunable(masked).items():
            before = weight.norm()
            weight.mul_(masks[name])
            weight.mul_(before / weight.norm().clamp_min(1e-12))
    return masked


def tables() -> dict[str, str]:
    """The table of the page."""
    head = ["", "batch", "dense, ms", "asked for, ms", "predicted, ms", "got, ms", "got, % of asked"]
    body = []
    for key, row in read(RESULTS)["rows"].items():
        network, batch, _ = key.split(", ")
        numbers = map(digits, (row["dense"], row["asked"], row["predicted"], row["got"]))
        body.append([network, batch.removeprefix("batch "), *numbers, percent(row["got"] / row["asked"])])
    return {"latency": table(head, body)}


if __name__ == "__main__":
    print(json.dumps(run(), indent=2))
    fill([PAGE], tables())

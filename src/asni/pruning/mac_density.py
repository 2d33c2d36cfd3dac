"""The part of a dense network's multiplications that its living weights take."""

from collections.abc import Mapping

from torch import Tensor, nn

from asni.errors import AsniError
from asni.pruning.budgets import Goal, reachable, require_possible
from asni.pruning.costs import macs_budget
from asni.pruning.layers import survey
from asni.pruning.macs import InputSize, alive_macs, calls_of, macs
from asni.pruning.masks import nonzeros_each


class MacDensity:
    """Looks once how often each weight is multiplied, and then says how much of it is left.

    >>> import torch
    >>> model = nn.Sequential(nn.Linear(4, 2), nn.Linear(2, 2))
    >>> density = MacDensity(model, (1, 4))
    >>> _ = model[0].weight.data[0].zero_()
    >>> round(density.now(), 3)
    0.667
    """

    def __init__(self, model: nn.Module, example: InputSize):
        try:
            calls = calls_of(model, example)
        except AsniError:
            # Only a figure to report: a network that cannot run on an example trains all the same.
            calls = {}
        used = [(each.name, each.parameter) for each in survey(model) if id(each.parameter) in calls]
        self._weights = dict(used)
        self._calls = {name: calls[id(weight)] for name, weight in used}
        self.dense = sum(macs(weight, self._calls[name]) for name, weight in used)
        """The multiplications of the dense network."""

    def now(self) -> float | None:
        """The fraction of them that is left; None if no weight is known to be multiplied."""
        if not self.dense:
            return None
        alive = nonzeros_each(self._weights)
        return sum(alive_macs(self._weights[name], alive[name], self._calls[name]) for name in alive) / self.dense


def macs_goal(
    model: nn.Module,
    weights: Mapping[str, Tensor],
    keep: int,
    example: InputSize,
    macs: float = 1.0,
    floor: float | None = None,
) -> Goal:
    """So many weights within the fraction `macs` of the dense multiplications; refuses what no masks can meet."""
    goal = Goal(keep, macs_budget(model, weights, macs, example), floor)
    require_possible(goal)
    return goal


def density_range(goal: Goal) -> tuple[float, float]:
    """The least and the most of the dense multiplications that so many weights can take, as fractions.

    >>> from asni.pruning.layers import prunable
    >>> model = nn.Sequential(nn.Conv2d(1, 1, 2), nn.Flatten(), nn.Linear(4, 2))
    >>> density_range(macs_goal(model, prunable(model), 6, (1, 1, 3, 3)))
    (0.375, 0.75)
    """
    low, high = reachable(goal)
    return low / goal.budget.whole, high / goal.budget.whole

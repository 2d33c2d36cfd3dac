"""Global pruning along a schedule, by magnitude or another score: the base of ASNI-I, GMP and one-shot pruning."""

import re
from collections.abc import Mapping
from dataclasses import replace
from numbers import Real
from typing import SupportsIndex, Unpack

import torch
from torch import Tensor, nn

from asni.errors import UsageError
from asni.pruning.budgets import Goal, agreed, cost_of, keep_within, require_possible
from asni.pruning.costs import Budget, macs_budget
from asni.pruning.hold import Hold
from asni.pruning.layers import Layers, prunable, trained_by
from asni.pruning.length import Length, length
from asni.pruning.macs import InputSize
from asni.pruning.masks import (
    Masks,
    count_each,
    full_masks,
    nearly_empty,
    nonzeros_each,
    share_of_zeros,
    weight_count,
    weights_to_keep,
)
from asni.pruning.messages import say, warn
from asni.pruning.optimizers import unwrapped
from asni.pruning.schedules import Schedule, Step, kept, shares
from asni.pruning.scores import Score, keep_highest, magnitude, score_function

GROWTH = 5
"""How many times larger training may well make the weights of a layer, compared with those of the others."""

MOST_AT_ONCE = 0.2
"""The fraction of the survivors above which a single pruning is too much, in whole percent as it is shown."""

MOST_TRIED = 10_000
"""A remedy has at most so many prunings, or they take longer to look at than a user waits for the first step."""


class Ranking(Layers, total=False):
    """Keyword arguments of every gradual pruner: which weights to prune and how to rank them."""

    score: str | Score
    floor: float | None
    macs: float | None
    example: InputSize | None
    costs: Mapping[str, float] | None
    budget: Budget | None


class GradualMagnitude(Hold):
    """Prunes to the schedule's sparsity every `every` steps of a training of `steps` optimiser steps.

    `every` steps count as one epoch of the schedule. Weights are ranked globally, over all layers. A pruned weight
    never comes back. The last pruning leaves exactly `round(prunable * (1 - final))` weights. Options of all gradual
    pruners:

    - `include`, `exclude`: which weights to prune (see `asni.prunable`);
    - `score`: "magnitude" (default), "lamp", or a function `(name, weight) -> tensor`; the largest scores are kept;
    - `floor`: the minimum to keep in each layer, as a fraction (float) or a number of weights (int);
    - `macs`: the multiplications to keep, as a fraction of the dense network's: those of one pass of an `example`, an
      input or its size. `costs` may say instead how often each weight of a layer is multiplied. Weights are then kept
      where `w^2 > l1 + l2 * multiplications`, with LAMP where `-log(1 - LAMP) > ...`: exactly as many, within both
      limits, and both follow the schedule;
    - `budget`: a limit in any other unit, such as milliseconds (see `asni.layer_times`).

    >>> from asni.pruning.schedules import Polynomial
    >>> model = nn.Linear(10, 10)
    >>> optimizer = torch.optim.Adam(model.parameters())
    >>> pruner = GradualMagnitude(model, optimizer, schedule=Polynomial(0.9), steps=20, every=4)
    >>> for step in range(20):
    ...     loss = model(torch.ones(1, 10)).square().sum()
    ...     optimizer.zero_grad(); loss.backward(); optimizer.step()
    >>> pruner
    GradualMagnitude(step 20/20, 90 % pruned, 10 alive)
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        *,
        schedule: Schedule,
        steps: int | Length,
        every: int,
        score: str | Score = "magnitude",
        floor: float | None = None,
        macs: float | None = None,
        example: InputSize | None = None,
        costs: Mapping[str, float] | None = None,
        budget: Budget | None = None,
        **layers: Unpack[Layers],
    ):
        whole = steps if isinstance(steps, Length) else length(total_steps=steps)
        every = checked_interval(every, whole)
        self.prunings = whole.steps // every
        self.final = checked_sparsity(schedule(self.prunings - 1, self.prunings))
        self.score = score_function(score)
        weights = trained_by(unwrapped(optimizer), prunable(model, **layers))
        target = weights_to_keep(weights, self.final, floor)
        if macs is None and costs is not None:
            raise UsageError("costs= says what macs= limits: pass macs= too, or leave it out.")
        if macs is not None:
            if budget is not None:
                raise UsageError("macs= and budget= both limit the cost: choose one.")
            budget = macs_budget(model, weights, macs, example, costs)
        self.goal = None if budget is None else Goal(target, agreed(budget).for_weights(weights), floor)
        if self.goal is not None:
            require_possible(self.goal)
        super().__init__(model, optimizer, full_masks(weights), target=target, length=whole)
        self.layers = layers
        self.schedule, self.every, self.floor = schedule, every, floor
        self.settings = {
            "sparsity": self.final,
            "steps": whole.steps,
            "every": every,
            "schedule": described(schedule),
            "score": described(self.score),
            "floor": floor,
            "macs": macs,
            "budget": None if self.goal is None else self.goal.budget.digest,
        }

    def begin(self) -> None:
        super().begin()
        self.warn_if_pruned_before(share_of_zeros(self.weights))
        self._warn_of_large_prunings()
        self._warn_of_layers_that_will_die()

    def after_step(self) -> None:
        super().after_step()
        if self.steps % self.every == 0:
            self.prune(self.planned(self.steps))

    @property
    def fixed_steps(self) -> int | None:
        """The steps up to the next pruning that takes weights."""
        if not self.steps_as(GradualMagnitude):
            return 0
        total, end = weight_count(self.weights), self.prunings * self.every
        prunings = range(self.steps + self.every - self.steps % self.every, end + 1, self.every)
        return next((step - self.steps for step in prunings if kept(total, self.planned(step)) < self.alive), None)

    @property
    def cost(self) -> float | None:
        """What the network costs now, in multiplications or in the unit of the budget; None without a budget."""
        return None if self.goal is None else cost_of(self.goal.budget, self.masks)

    def planned(self, step: int) -> float:
        done = step // self.every
        return self.schedule(done - 1, self.prunings) if done else 0.0

    def schedule_of(self, prunings: int) -> Schedule:
        """The schedule of the same training in so many prunings."""
        return self.schedule

    @torch.no_grad()
    def finish(self) -> None:
        super().finish()
        assert self.target is not None
        before = self.alive
        if before > self.target:
            self.prune(self.final)
            say(
                f"{type(self).__name__} finished after step {self.steps:,} of {self._ending.total_steps:,}: pruned at "
                f"once from {before:,} to {self.target:,} of {self._ending.weights:,} weights."
            )

    def prune(self, sparsity: float) -> None:
        """Prune to `sparsity` by one global threshold; does nothing if the network is already that sparse."""
        keep = kept(weight_count(self.weights), sparsity)
        if keep < self.alive:
            self.masks = self._chosen(self.weights, keep, sparsity, self.masks)

    def _chosen(self, weights: Mapping[str, Tensor], keep: int, sparsity: float, within: Masks) -> Masks:
        if self.goal is None:
            return keep_highest(weights, self.score, keep, within, self.floor)
        now = replace(self.goal, keep=keep, budget=self.goal.budget.on_the_way(sparsity, self.final))
        return keep_within(weights, self.score, now, within, end=self.goal)

    def _at_the_end(self, weights: Mapping[str, Tensor]) -> Masks:
        """The masks that the training would end with, if it ended with these weights."""
        assert self.target is not None
        return self._chosen(weights, self.target, self.final, full_masks(weights))

    def _warn_of_large_prunings(self) -> None:
        """Warn of a schedule that takes too many of the survivors at a time; one that prunes once means to."""
        largest = _largest_share(self.schedule, self.prunings)
        if largest <= MOST_AT_ONCE or isinstance(self.schedule, Step):
            return
        taken = shares(self.schedule, self.prunings)
        place = taken.index(max(taken)) + 1
        warn(
            f"pruning {place} of {self.prunings}, after step {place * self.every:,}, takes {largest:.0%} of the "
            f"weights that are left. {self._smaller_prunings()}."
        )

    def _smaller_prunings(self) -> str:
        """What makes every pruning small enough: more of them, a longer training, or else a lower sparsity."""
        assert self.length is not None
        every = self.every // 2
        while every and (prunings := self.length.steps // every) <= MOST_TRIED:
            if _largest_share(self.schedule_of(prunings), prunings) <= MOST_AT_ONCE:
                return f"Prune in smaller steps: every={every} (--prune-every {every})"
            every //= 2
        prunings = 2 * self.prunings
        while prunings <= MOST_TRIED:
            if _largest_share(self.schedule, prunings) <= MOST_AT_ONCE:
                return f"Train for {prunings * self.every:,} steps with every={self.every}, or prune less"
            prunings *= 2
        return "Prune less, or along another curve"

    def _warn_of_layers_that_will_die(self) -> None:
        """Warn if the layers' scales differ so much that training will hardly make up for it."""
        if self.score is not magnitude or self.floor:
            return
        assert self.target is not None
        masks = self._at_the_end(self.weights)
        nonzero = nonzeros_each(self.weights)
        thin = [name for name in nearly_empty(masks) if nonzero[name]]
        if not thin:
            return
        grown = {name: weight * GROWTH if name in thin else weight for name, weight in self.weights.items()}
        dying = [name for name in nearly_empty(self._at_the_end(grown)) if name in thin]
        if dying:
            kept_by = count_each(masks)
            first, largest = dying[0], max(kept_by, key=lambda name: kept_by[name])
            warn(
                f"a sparsity of {self.final:g} will leave {len(dying)} of {len(masks)} layers nearly empty, such as "
                f"'{first}' ({kept_by[first]:,} of {masks[first].numel():,} weights): even {GROWTH} times larger, its "
                f"weights would be too small for one threshold over all layers, and '{largest}' keeps "
                f"{kept_by[largest] / self.target:.0%} of all that live. "
                'Rank with score="lamp", keep some of each layer with floor=0.01, or leave layers out with exclude=.'
            )


def _largest_share(schedule: Schedule, prunings: int) -> float:
    """The largest fraction of the survivors that a pruning takes, in whole percent."""
    return round(max(shares(schedule, prunings)), 2)


def described(function: object) -> str:
    """A schedule or a score as text that is the same in every process."""
    return getattr(function, "__qualname__", None) or re.sub(r" at 0x[0-9a-f]+", "", repr(function))


def checked_interval(every: int, whole: Length) -> int:
    """The steps between two prunings, if they fit into the training."""
    if not isinstance(every, SupportsIndex) or isinstance(every, bool) or not 1 <= every <= whole.steps:
        raise UsageError(f"every must be from 1 to the {whole.steps} steps of the training, not {every!r}.")
    return int(every)


def checked_sparsity(sparsity: float) -> float:
    """The sparsity as a Python number, whichever kind of number it was given as."""
    if not isinstance(sparsity, Real | float) or not 0 < sparsity < 1:
        raise UsageError(f"sparsity must be a fraction above 0 and below 1, not {sparsity!r}.")
    return float(sparsity)

"""Masks with an exact number of weights, within a budget: keep where `gain(w) > l1 + l2 * price(layer)`.

The gain of a weight is `w^2` for magnitude, and `-log(1 - LAMP(w))` for LAMP. By the first, the energy that is kept is
the largest under both limits, up to one weight; by the second, the sum over layers of its logarithm. l2 is 0 where the
number alone meets the budget. The rule is known: FALCON (Meng et al., AISTATS 2024), Spartan (Tai et al., NeurIPS
2022), Yang et al. (ICLR 2019).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from asni.errors import UsageError
from asni.pruning.costs import Budget, Table
from asni.pruning.masks import Masks, common_dtype, count_each, floor_counts, keep_largest
from asni.pruning.multipliers import ROUNDING, Ranks, by_number, by_price, counts_within
from asni.pruning.scores import Score, lamp, magnitude, ranked
from asni.pruning.sharded import any_sharded, counted_here, local, mesh_of_each, spread_like, summed

if TYPE_CHECKING:
    from asni.pruning.multipliers import Counts, Floats


@dataclass(frozen=True)
class Goal:
    """So many weights, within a budget, and the minimum to keep in each layer."""

    keep: int
    budget: Budget
    floor: float | None = None


def keep_within(
    weights: Mapping[str, Tensor], score: Score, goal: Goal, within: Masks, end: Goal | None = None
) -> Masks:
    """Masks that keep exactly `goal.keep` of the weights in `within`, at a cost within the budget.

    LAMP keeps one weight of each layer, whose gain is infinite. The goal at the `end` of a training stays within reach:
    what it needs is not pruned on the way. If the budget cannot be met, the masks are the cheapest.
    """
    values, by = ranked(weights, score)
    living = {name: spread_like(within[name], value) for name, value in values.items()}
    blocks = _Blocks(goal.budget)
    scores, alive = blocks.of(values), blocks.of(living)
    in_order, alive_now = _Sorted(scores, alive, by, _least_score_of(score)), blocks.count(living)
    if not in_order.finite or goal.keep > alive_now.sum():
        # It refuses both, with the numbers.
        return keep_largest(values, goal.keep, within=living, by=by)
    least = np.minimum(blocks.least(goal, at_least_one=score is lamp), alive_now)
    ranks = Ranks(blocks.tables, alive_now, least, in_order.above, blocks.fixed)

    def allows(counts: "Counts") -> bool:
        return blocks.meet(goal, counts) and (end is None or blocks.allow(end, counts, least))

    if allows(by_number(ranks, goal.keep)):
        masks = keep_largest(values, goal.keep, within=living, by=by, floor=goal.floor)
        # Equal weights share LAMP's score, so that even the last ones of a layer may be below the others.
        if allows(blocks.count(masks)) and (score is not lamp or all(count_each(masks).values())):
            return masks
    counts = counts_within(ranks, goal.keep, goal.budget.limit)
    if end is not None and not blocks.allow(end, counts, least):
        counts = _with_the_end_within_reach(ranks, blocks, goal, end)
    kept: Masks = {}
    for (name, value), number in zip(scores.items(), counts.tolist(), strict=True):
        kept |= keep_largest({name: value}, number, within={name: alive[name]}, by=by)
    return blocks.joined(kept)


def _with_the_end_within_reach(ranks: Ranks, blocks: "_Blocks", goal: Goal, end: Goal) -> "Counts":
    needed = counts_within(ranks, end.keep, end.budget.limit)
    counts = counts_within(replace(ranks, least=needed), goal.keep, goal.budget.limit)
    if not blocks.allow(end, counts, ranks.least):
        # The cheapest choice may miss one that is within reach where the price depends on the number.
        needed = by_price(ranks.tables, end.keep, ranks.living, ranks.least)
        counts = counts_within(replace(ranks, least=needed), goal.keep, goal.budget.limit)
    return counts


def agreed(budget: Budget) -> Budget:
    """In distributed training, the budget of the first process that prunes the same layers.

    Times that each process measures differ, and so would their masks. All processes have to call this.
    """
    if not isinstance(budget, Budget):
        raise UsageError(f"budget is what asni.latency_budget returns, not {type(budget).__name__}.")
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return budget
    gathered: list[Budget] = [budget] * torch.distributed.get_world_size()
    torch.distributed.all_gather_object(gathered, budget)
    return next(each for each in gathered if each.costs.layers.keys() == budget.costs.layers.keys())


def cost_of(budget: Budget, masks: Mapping[str, Tensor]) -> float:
    """What the living weights cost, and what is not pruned, in the unit of the budget."""
    blocks = _Blocks(budget)
    return blocks.cost(blocks.count(masks))


def reachable(goal: Goal) -> tuple[float, float]:
    """The least and the most that so many weights can cost, with at least one in each layer."""
    blocks = _Blocks(goal.budget)
    least = blocks.least(goal, at_least_one=True)
    low, high = (
        blocks.cost(by_price(blocks.tables, goal.keep, blocks.sizes, least, dearest=dearest))
        for dearest in (False, True)
    )
    return low, high


def require_possible(goal: Goal) -> None:
    """Refuse a budget that so many weights cannot meet with at least one in each layer; tell what they can."""
    shown = goal.budget.shown
    low, high = reachable(goal)
    if low > goal.budget.limit * (1 + ROUNDING):
        minimum = f"floor = {goal.floor}" if goal.floor else "at least 1 in each layer"
        raise UsageError(
            f"{goal.keep:,} weights cannot keep to {shown(goal.budget.limit)}{goal.budget.of_what}: with {minimum} "
            f"they take from {shown(low, up=True)} to {shown(high, up=high < 1.01 * low)}. "
            "Raise the budget or the sparsity."
        )


class _Blocks:
    """The layers, cut where the rows of one have different prices, and what their weights cost."""

    def __init__(self, budget: Budget):
        self.layers = layers = budget.costs.layers
        self.fixed = budget.costs.fixed
        self.names = {
            name: [name] if len(tables) == 1 else [f"{name} {number}" for number in range(len(tables))]
            for name, tables in layers.items()
        }
        self.tables = [table for tables in layers.values() for table in tables]
        self.sizes = np.array([table.weights for table in self.tables])

    def of(self, layers: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The blocks of tensors, in the order of the tables."""
        return {
            block: rows
            for name, names in self.names.items()
            for block, rows in zip(names, _rows(layers[name], len(names)), strict=True)
        }

    def joined(self, blocks: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return {
            name: blocks[names[0]] if len(names) == 1 else torch.cat([blocks[each] for each in names])
            for name, names in self.names.items()
        }

    def count(self, masks: Mapping[str, Tensor]) -> "Counts":
        return np.array(list(count_each(self.of(masks)).values()))

    def cost(self, counts: "Counts") -> float:
        return self.fixed + sum(map(Table.of, self.tables, counts.tolist()))

    def least(self, goal: Goal, *, at_least_one: bool) -> "Counts":
        """The minimum to keep in each block: that of a layer is divided evenly between its blocks."""
        sizes = {name: sum(table.weights for table in tables) for name, tables in self.layers.items()}
        floors = floor_counts(sizes, goal.floor or 0, goal.keep)
        if at_least_one and len(floors) <= goal.keep:
            floors = {name: max(floor, min(1, sizes[name])) for name, floor in floors.items()}
        return np.array([part for name, floor in floors.items() for part in _parts(floor, len(self.names[name]))])

    def allow(self, end: Goal, counts: "Counts", least: "Counts") -> bool:
        """Whether a goal can still be met when so many weights of each block are left."""
        return self.meet(end, by_price(self.tables, end.keep, counts, np.minimum(least, counts)))

    def meet(self, goal: Goal, counts: "Counts") -> bool:
        return self.cost(counts) <= goal.budget.limit * (1 + ROUNDING)


def _rows(layer: Tensor, blocks: int) -> Sequence[Tensor]:
    return [layer] if blocks == 1 else layer.chunk(blocks)


def _parts(number: int, parts: int) -> list[int]:
    """A number as the sum of so many that differ by at most one."""
    return [number * (part + 1) // parts - number * part // parts for part in range(parts)]


class _Sorted:
    """The scores of the living weights of each block in ascending order, or this process's share of them."""

    def __init__(
        self,
        scores: Mapping[str, Tensor],
        living: Mapping[str, Tensor],
        by: Callable[[Tensor], Tensor],
        least_score: Callable[["Floats"], "Floats"],
    ):
        self.least_score = least_score
        self.meshes = mesh_of_each(scores) if any_sharded(scores.values()) else {}
        dtype = common_dtype(scores)
        self.scores: list[Floats] = []
        for name, score in scores.items():
            is_counted = not self.meshes or counted_here(score, self.meshes[name])
            values = local(spread_like(by(score.detach()), score)).to(dtype).cpu().numpy()
            # NumPy's selection is faster than torch's.
            here = values[local(living[name]).cpu().numpy()]
            here.sort()
            self.scores.append(here if is_counted else here[:0])
        # What is not finite is at the ends.
        bad = [[not np.isfinite(scores[[0, -1]]).all() if len(scores) else False] for scores in self.scores]
        self.finite = not self._over_all_processes(np.array(bad, dtype=np.int64)).any()

    def above(self, gains: "Floats") -> "Counts":
        """How many weights of each block gain more than each of the numbers in its row."""
        with np.errstate(over="ignore"):
            least = self.least_score(gains)
            counts = np.stack(
                [
                    len(scores) - scores.searchsorted(row.astype(scores.dtype), side="right")
                    for scores, row in zip(self.scores, least, strict=True)
                ]
            )
        return self._over_all_processes(counts)

    def _over_all_processes(self, counts: "Counts") -> "Counts":
        if not self.meshes:
            return counts
        meshes = list(self.meshes.values())
        parts = {
            mesh: torch.from_numpy(counts * np.array([[each == mesh] for each in meshes])).to(mesh.device_type)
            for mesh in dict.fromkeys(meshes)
        }
        return summed(parts).numpy()


def _least_score_of(score: Score) -> "Callable[[Floats], Floats]":
    """From gains to the scores that have them."""
    if score is magnitude:
        return lambda gains: np.where(gains < 0, -1.0, np.sqrt(np.maximum(gains, 0)))
    if score is lamp:
        return lambda gains: -np.expm1(-gains)
    return lambda gains: gains

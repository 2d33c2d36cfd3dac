"""How many weights each layer keeps, in an exact number and within a limit of cost, by Lagrange multipliers.

A layer keeps the weights with `gain > l1 + l2 * price`. Both multipliers are found by bisection over the floats in
their order. At a given l2, l1 makes the number exact; l2 is the smallest that meets the limit.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from asni.pruning.costs import Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Counts = NDArray[np.int64]

CANDIDATES = 64
"""How many l1 are tried at a time."""

ROUNDING = 1e-12
"""By how much sums of costs in another order may differ."""

LARGEST = 1e150
"""A multiplier beside which no gain matters, and whose products with prices do not overflow."""

_A_FACTOR_OF_TWO = 2**52
"""Between the integers of two floats."""


@dataclass(frozen=True)
class Ranks:
    """The weights of each layer in the order of their gains.

    `above(gains)` counts the weights that gain more: a row for each layer, with a column for each of its gains. At
    least `least` of each layer are kept.
    """

    tables: Sequence[Table]
    living: "Counts"
    least: "Counts"
    above: "Callable[[Floats], Counts]"
    fixed: float = 0.0
    """The cost of all else."""

    def cost(self, counts: "Counts") -> float:
        return self.fixed + sum(map(Table.of, self.tables, counts.tolist()))


def by_number(ranks: Ranks, keep: int) -> "Counts":
    """How many weights of each layer to keep if the number alone matters."""
    return _by_rank(ranks, keep, np.zeros(len(ranks.tables)))


def counts_within(ranks: Ranks, keep: int, limit: float) -> "Counts":
    """How many weights of each layer to keep, `keep` in all; at the least cost there is if none meets the limit."""
    limit *= 1 + ROUNDING
    dear = by_number(ranks, keep)
    if ranks.cost(dear) <= limit:
        return dear
    prices = np.array([table.price(max(count, 1)) for table, count in zip(ranks.tables, dear.tolist(), strict=True)])
    low, high = 0, _key(LARGEST / max(prices.max(), 1.0))
    cheap = _by_rank(ranks, keep, _float(high) * prices)
    if ranks.cost(cheap) > limit:
        # Only where the price of a weight depends on how many there are.
        cheap = min(cheap, by_price(ranks.tables, keep, ranks.living, ranks.least), key=ranks.cost)
        if ranks.cost(cheap) > limit:
            # Of equal costs, as in a network whose weights all cost the same, the largest gains are the best.
            limit = ranks.cost(cheap) * (1 + ROUNDING)
            if ranks.cost(dear) <= limit:
                return dear
    # Far above the threshold, gains are lost in the rounding of what is added to them.
    while high - low > 1 and (high - low > _A_FACTOR_OF_TWO or np.abs(dear - cheap).sum() > 2):
        middle = (low + high) // 2
        counts = _by_rank(ranks, keep, _float(middle) * prices)
        if ranks.cost(counts) <= limit:
            high, cheap = middle, counts
        else:
            low, dear = middle, counts
    return _exchanged(ranks, cheap, dear, limit)


def by_price(
    tables: Sequence[Table], keep: int, living: "Counts", least: "Counts", *, dearest: bool = False
) -> "Counts":
    """How many weights of each layer to keep if price alone decides: the cheapest, or the dearest.

    The order does not depend on what lives: within anything that contains the choice, the choice is the same, so that a
    goal which was within reach stays there.

    >>> tables = [Table((0, 1, 3), (0.0, 1.0, 9.0)), Table.linear(3, 2.0)]
    >>> by_price(tables, 3, np.array([3, 3]), np.array([0, 0]))
    array([1, 2])
    """
    sign = -1 if dearest else 1
    lines = [(price, layer, end) for layer, table in enumerate(tables) for price, end in _hull(table, sign)]
    counts, missing = least.copy(), keep - int(least.sum())
    for _, layer, end in sorted(lines):
        taken = max(min(missing, min(end, int(living[layer])) - int(counts[layer])), 0)
        counts[layer] += taken
        missing -= taken
    return counts


def _hull(table: Table, sign: int) -> list[tuple[float, int]]:
    """The largest convex function below the costs, times the sign: the price of a weight in each line, and its end."""
    points: list[tuple[int, float]] = []
    for count, cost in zip(table.counts, table.costs, strict=True):
        while len(points) > 1 and _price(points[-2], points[-1]) >= _price(points[-1], (count, sign * cost)):
            points.pop()
        points.append((count, sign * cost))
    return [(_price(before, after), after[0]) for before, after in pairwise(points)]


def _price(before: tuple[int, float], after: tuple[int, float]) -> float:
    return (after[1] - before[1]) / max(after[0] - before[0], 1)


def _by_rank(ranks: Ranks, keep: int, handicaps: "Floats") -> "Counts":
    """How many weights of each layer are among the `keep` whose gain exceeds their layer's handicap by most."""
    low, high = _key(-np.finfo(np.float64).max), _key(np.finfo(np.float64).max)
    more, fewer = ranks.living, ranks.least
    while high - low > 1 and fewer.sum() < keep:
        step = max((high - low) // (CANDIDATES + 1), 1)
        keys = list(range(low + step, high, step))[:CANDIDATES]
        with np.errstate(over="ignore"):
            gains = np.array([_float(key) for key in keys]) + handicaps[:, None]
        counts = np.maximum(ranks.above(gains), ranks.least[:, None])
        enough = counts.sum(0) >= keep
        place = int(enough.sum())
        if place > 0:
            low, more = keys[place - 1], counts[:, place - 1]
        if place < len(keys):
            high, fewer = keys[place], counts[:, place]
    # Of those tied at the threshold, the ones of cheaper and then of earlier layers.
    return _filled(fewer, more, keep, np.argsort(handicaps, kind="stable"))


def _filled(counts: "Counts", most: "Counts", keep: int, order: "Counts") -> "Counts":
    """The counts, raised to `most` from the first layer in the order on, until `keep` are kept."""
    counts, missing = counts.copy(), keep - int(counts.sum())
    for layer in order.tolist():
        taken = min(missing, int(most[layer] - counts[layer]))
        counts[layer] += taken
        missing -= taken
    return counts


def _exchanged(ranks: Ranks, cheap: "Counts", dear: "Counts", limit: float) -> "Counts":
    """As near to the dear choice as the limit allows, one weight for another."""
    counts = cheap.copy()
    for taken in np.flatnonzero(dear > cheap).tolist():
        for given in np.flatnonzero(dear < cheap).tolist():
            most = int(min(dear[taken] - counts[taken], counts[given] - dear[given]))
            number = _most_exchanged(ranks, counts, limit, taken, given, most)
            counts[taken] += number
            counts[given] -= number
    return counts


def _most_exchanged(ranks: Ranks, counts: "Counts", limit: float, taken: int, given: int, most: int) -> int:
    """How many weights of one layer can be taken for those of another."""
    swap = np.zeros_like(counts)
    swap[taken], swap[given] = 1, -1
    possible, too_many = 0, most + 1
    middle = min(1, most)
    while too_many - possible > 1:
        if ranks.cost(counts + middle * swap) <= limit:
            possible = middle
        else:
            too_many = middle
        middle = (possible + too_many) // 2
    return possible


def _key(value: float) -> int:
    """An integer in the order of the floats."""
    bits = int(np.float64(value).view(np.int64))
    return bits if bits >= 0 else bits ^ (2**63 - 1)


def _float(key: int) -> float:
    bits = key if key >= 0 else key ^ (2**63 - 1)
    return float(np.int64(bits).view(np.float64))

"""What the living weights of each layer cost, in multiplications or in any other unit, and a limit on the total."""

import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_HALF_EVEN, Context, Decimal
from itertools import pairwise
from numbers import Real

import numpy as np
from torch import Tensor, nn

from asni.errors import UsageError, unknown
from asni.pruning.layers import survey
from asni.pruning.macs import Calls, InputSize, alive_macs, calls_of
from asni.pruning.macs import macs as all_macs
from asni.pruning.masks import nonzeros_each, renamed
from asni.pruning.sharded import is_sharded

MULTIPLICATIONS = "multiplications"


@dataclass(frozen=True)
class Table:
    """What a number of weights costs: straight lines between known points, from none of the weights to all of them.

    >>> Table((0, 100), (0.0, 2500.0)).of(10), Table((0, 10, 100), (1.0, 3.0, 4.0)).of(55)
    (250.0, 3.5)
    """

    counts: tuple[int, ...]
    costs: tuple[float, ...]

    def __post_init__(self) -> None:
        rises = self.counts[:1] == (0,) and all(before < after for before, after in pairwise(self.counts[:-1]))
        if len(self.counts) != len(self.costs) or len(self.counts) < 2 or not rises or self.counts[-2] > self.weights:
            raise UsageError(f"a table of costs needs a cost for each of some rising counts from 0, not {self.counts}.")
        if not all(0 <= cost < math.inf for cost in self.costs):
            raise UsageError(f"a table of costs has finite numbers of at least 0, not {self.costs}.")

    @classmethod
    def linear(cls, weights: int, price: float) -> "Table":
        """Every weight costs the same."""
        return cls((0, weights), (0.0, price * weights))

    def of(self, count: float) -> float:
        return float(np.interp(count, self.counts, self.costs))

    def price(self, count: int) -> float:
        """What one of so many weights costs."""
        return (self.of(count) - self.costs[0]) / count if count else 0.0

    @property
    def weights(self) -> int:
        return self.counts[-1]


@dataclass(frozen=True)
class Costs:
    """What the weights of a network cost.

    `layers` has a table for each block of rows of each layer: one block, but for attention, whose queries, keys and
    values may be of different lengths. `fixed` is the cost of all else.
    """

    layers: Mapping[str, tuple[Table, ...]]
    fixed: float = 0.0
    unit: str = MULTIPLICATIONS

    @property
    def dense(self) -> float:
        """The cost if all weights live."""
        return self.uniform(1.0)

    def uniform(self, density: float) -> float:
        """The cost if every layer has this density."""
        tables = [table for each in self.layers.values() for table in each]
        return self.fixed + sum(table.of(density * table.weights) for table in tables)


@dataclass(frozen=True)
class Budget:
    """At most `limit`, in the unit of the costs; the dense network costs `whole`."""

    costs: Costs
    limit: float
    whole: float

    def __post_init__(self) -> None:
        for name, value in (("limit", self.limit), ("whole", self.whole)):
            if not isinstance(value, Real | float) or not value >= 0:
                raise UsageError(f"the {name} of a budget must be a number of at least 0, not {value!r}.")

    @property
    def digest(self) -> str:
        """What tells this budget from others."""
        return f"{zlib.crc32(repr(self).encode()):08x}"

    def shown(self, cost: float, *, up: bool = False) -> str:
        """A cost as text, rounded up if it has to suffice.

        Multiplications are a fraction of the dense network's, others are shown as they are.

        >>> budget = Budget(Costs({}), limit=50.0, whole=300.0)
        >>> budget.shown(100.0), budget.shown(100.0, up=True)
        ('0.333', '0.334')
        """
        is_fraction = self.costs.unit == MULTIPLICATIONS
        number = Decimal(cost / self.whole if is_fraction else cost)
        rounded = Context(prec=3, rounding=ROUND_CEILING if up else ROUND_HALF_EVEN).plus(number)
        return f"{float(rounded):g}" + f" {self.costs.unit}" * (not is_fraction)

    def for_weights(self, weights: Mapping[str, Tensor]) -> "Budget":
        """The same budget under the names of these weights; refuses one that has no costs for some of them."""
        layers = renamed(self.costs.layers, weights)
        for name, weight in weights.items():
            if name not in layers:
                raise UsageError(f"the budget has no costs for '{name}'. Leave it out with exclude=.")
            known = sum(table.weights for table in layers[name])
            if known != weight.numel():
                raise UsageError(f"the budget is for {known:,} weights in '{name}', and it has {weight.numel():,}.")
        others = sum(table.costs[-1] for name in layers.keys() - weights.keys() for table in layers[name])
        own = {name: layers[name] for name in weights}
        return replace(self, costs=replace(self.costs, layers=own, fixed=self.costs.fixed + others))

    @property
    def of_what(self) -> str:
        return " of the dense multiplications" if self.costs.unit == MULTIPLICATIONS else ""

    def on_the_way(self, sparsity: float, final: float) -> "Budget":
        """The budget at a sparsity on the way to the final one.

        It falls from the cost of all weights to the limit as the cost of equally dense layers does: for
        multiplications `dense * (1 - (1 - macs) * sparsity / final)`.

        >>> Budget(Costs({"a": (Table.linear(100, 2.0),)}), limit=50.0, whole=200.0).on_the_way(0.4, final=0.8).limit
        125.0
        >>> costs = Costs({"a": (Table((0, 50, 100), (0.0, 150.0, 200.0)),)})
        >>> Budget(costs, limit=50.0, whole=200.0).on_the_way(0.4, final=0.8).limit
        157.14285714285714
        """
        first, now, last = (self.costs.uniform(1 - each) for each in (0.0, sparsity, final))
        progress = (first - now) / (first - last) if first > last else sparsity / final
        return replace(self, limit=self.costs.dense * (1 - progress) + self.limit * progress)


def macs_budget(
    model: nn.Module,
    weights: Mapping[str, Tensor],
    macs: float,
    example: InputSize | None,
    given: Mapping[str, float] | None = None,
) -> Budget:
    """At most the fraction `macs` of the multiplications that the dense network takes for the example.

    `given` says how often each weight of a layer is multiplied, instead of the example or where that does not tell.
    Layers that are not pruned count too: their nonzeros are multiplied whatever the pruner does.
    """
    if not isinstance(macs, Real | float) or isinstance(macs, bool) or not 0 < macs <= 1:
        raise UsageError(f"macs must be a fraction of the dense multiplications, above 0 and at most 1, not {macs!r}.")
    if example is None and given is None:
        raise UsageError("macs also needs example=: an input of the model, or its size, such as (1, 3, 32, 32).")
    parameters = {each.name: each.parameter for each in survey(model)}
    prices = _checked_prices({**parameters, **weights}, given or {})
    calls = {} if example is None else calls_of(model, example)
    layers = {
        name: _tables(name, weight, prices.get(name), calls.get(id(weight)), is_run=example is not None)
        for name, weight in weights.items()
    }
    own = {id(weight) for weight in weights.values()}
    others = {name: each for name, each in parameters.items() if id(each) not in own}
    alive = nonzeros_each({name: each for name, each in others.items() if name in prices or id(each) in calls})
    fixed = whole = 0.0
    for name, number in alive.items():
        weight = others[name]
        fixed += prices[name] * number if name in prices else alive_macs(weight, number, calls[id(weight)])
        whole += prices[name] * weight.numel() if name in prices else all_macs(weight, calls[id(weight)])
    costs = Costs(layers, fixed)
    if costs.dense == fixed:
        raise UsageError("no weight that is pruned is multiplied in a forward pass, so macs has nothing to limit.")
    whole += costs.dense - fixed
    limit = float(macs) * whole
    # 0.29 * 100 is a little less than 29.
    return Budget(costs, max(limit, round(limit)) if round(limit) / whole <= macs else limit, whole)


def _checked_prices(weights: Mapping[str, Tensor], given: Mapping[str, float]) -> dict[str, float]:
    if not isinstance(given, Mapping):
        raise UsageError(f"costs is a dict of the names of weights and numbers, not {type(given).__name__}.")
    prices = renamed(given, weights)
    if strange := [name for name in prices if name not in weights]:
        raise unknown("weight for costs", strange[0], weights)
    for name, price in prices.items():
        if not isinstance(price, Real | float) or isinstance(price, bool) or not 0 <= price < math.inf:
            raise UsageError(f"costs: '{name}' must cost a finite number of at least 0 per weight, not {price!r}.")
    return {name: float(price) for name, price in prices.items()}


def _tables(name: str, weight: Tensor, price: float | None, calls: Calls | None, *, is_run: bool) -> tuple[Table, ...]:
    """One table for each block of rows that is multiplied as often."""
    if price is not None:
        return (Table.linear(weight.numel(), price),)
    if calls is None and not is_run:
        raise UsageError(
            f"costs says nothing of '{name}'. Give its number, an example=, or leave it out with exclude=."
        )
    if calls is None:
        raise UsageError(
            f"'{name}' is not multiplied when the example passes through the model, or by a module that is not known. "
            f'Leave it out with exclude=, or say how often each of its weights is, with costs={{"{name}": number}}.'
        )
    blocks = max(map(len, calls))
    prices = [sum(times * uses[place % len(uses)] for uses, times in calls.items()) for place in range(blocks)]
    if len(set(prices)) == 1:
        return (Table.linear(weight.numel(), prices[0]),)
    if is_sharded(weight):
        raise UsageError(
            f"the rows of '{name}' are multiplied {' and '.join(map(str, prices))} times, which a budget cannot tell "
            "apart in a DTensor. Leave it out with exclude=, or give one number with costs=."
        )
    return tuple(Table.linear(rows.numel(), each) for rows, each in zip(weight.chunk(blocks), prices, strict=True))

"""What a weight costs: how often an example multiplies it, or what the user says; and a limit on the total."""

import math
from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn

from asni.errors import AsniError, UsageError
from asni.pruning.costs import Budget, Costs, Table, macs_budget
from asni.pruning.layers import prunable


class Twice(nn.Module):
    """A layer that runs twice, and a weight that two layers share."""

    def __init__(self) -> None:
        super().__init__()
        self.again, self.first, self.second, self.unused = (nn.Linear(3, 3) for _ in range(4))
        self.second.weight = self.first.weight

    def forward(self, batch: Tensor) -> Tensor:
        return cast(Tensor, self.second(self.first(self.again(self.again(batch)))))


class Attending(nn.Module):
    """Five queries look at nine words."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)

    def forward(self, queries: Tensor, words: Tensor) -> Tensor:
        return cast(Tensor, self.attention(queries, words, words)[0])


def small_convolution() -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(2 * 4 * 4, 3))


def budget(model: nn.Module, macs: float = 0.5, example: Any = None, **options: Any) -> Budget:
    """Of all weights that are pruned by default."""
    return macs_budget(model, prunable(model, exclude=options.pop("exclude", None)), macs, example, **options)


def price_of_each(found: Budget) -> dict[str, list[float]]:
    return {name: [table.price(1) for table in tables] for name, tables in found.costs.layers.items()}


def test_a_weight_costs_the_positions_that_it_is_laid_on() -> None:
    found = budget(small_convolution(), 0.5, (1, 1, 6, 6))
    assert price_of_each(found) == {"0.weight": [16], "3.weight": [1]}
    assert (found.whole, found.limit, found.costs.fixed) == (16 * 18 + 96, (16 * 18 + 96) / 2, 0)


def test_a_layer_that_runs_twice_and_a_weight_that_is_shared_cost_twice() -> None:
    found = budget(Twice(), 0.5, (2, 3), exclude="unused")
    assert price_of_each(found) == {"again.weight": [4], "first.weight": [4]}
    assert found.whole == 2 * 9 * 4


def test_a_layer_that_the_example_does_not_reach_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match=r"'unused\.weight' is not multiplied .*exclude=.*costs="):
        budget(Twice(), 0.5, (2, 3))
    known = budget(Twice(), 0.5, (2, 3), given={"unused.weight": 7})
    assert price_of_each(known)["unused.weight"] == [7]


def test_layers_that_are_not_pruned_cost_their_nonzeros() -> None:
    model = small_convolution()
    with torch.no_grad():
        prunable(model)["3.weight"][0] = 0.0
    found = budget(model, 0.5, (1, 1, 6, 6), exclude="3")
    assert list(found.costs.layers) == ["0.weight"]
    assert (found.costs.fixed, found.costs.dense, found.whole) == (64, 16 * 18 + 64, 16 * 18 + 96)


def test_attention_costs_the_lengths_of_queries_and_words() -> None:
    together = budget(Attending(), 0.5, [(1, 9, 4), (1, 9, 4)])
    assert price_of_each(together) == {"attention.in_proj_weight": [9], "attention.out_proj.weight": [9]}
    apart = budget(Attending(), 0.5, [(1, 5, 4), (1, 9, 4)])
    assert price_of_each(apart) == {"attention.in_proj_weight": [5, 9, 9], "attention.out_proj.weight": [5]}
    assert apart.whole == 16 * (5 + 9 + 9 + 5)


def test_costs_may_be_given_instead_of_an_example_or_beside_it() -> None:
    model = nn.Sequential(nn.Linear(4, 2), nn.Linear(2, 4))
    found = budget(model, 0.25, given={"0.weight": 3, "1.weight": 0})
    assert price_of_each(found) == {"0.weight": [3], "1.weight": [0]}
    assert (found.limit, found.whole) == (6, 24)
    beside = budget(model, 0.25, (5, 4), given={"1.weight": 2.5})
    assert price_of_each(beside) == {"0.weight": [5], "1.weight": [2.5]}
    left_out = budget(model, 0.25, given={"0.weight": 3, "1.weight": 2}, exclude="1")
    assert (left_out.costs.fixed, left_out.whole) == (16, 40)
    with pytest.raises(UsageError, match=r"costs says nothing of '1\.weight'.*example="):
        budget(model, 0.25, given={"0.weight": 3})


@pytest.mark.parametrize("price", [-1, math.nan, math.inf, "3", True, None])
def test_a_cost_that_is_no_price_is_refused_by_name(price: Any) -> None:
    with pytest.raises(UsageError, match=r"'0\.weight' must cost a finite number .* not "):
        budget(nn.Sequential(nn.Linear(4, 2)), 0.5, (1, 4), given={"0.weight": price})


def test_a_misspelt_weight_in_costs_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(UsageError, match=r"'0\.wieght'; did you mean '0\.weight'"):
        budget(nn.Sequential(nn.Linear(4, 2)), 0.5, (1, 4), given={"0.wieght": 1})


@pytest.mark.parametrize("macs", [0, -0.1, 1.5, math.nan, True, "0.5", None])
def test_macs_that_are_no_fraction_are_refused(macs: Any) -> None:
    with pytest.raises(UsageError, match=r"macs must be a fraction .* not "):
        budget(small_convolution(), macs, (1, 1, 6, 6))


def test_macs_without_an_example_or_with_nothing_to_limit_are_refused() -> None:
    with pytest.raises(UsageError, match=r"macs also needs example="):
        budget(small_convolution(), 0.5)
    with pytest.raises(UsageError, match="nothing to limit"):
        budget(nn.Linear(4, 2), 0.5, given={"weight": 0})
    with pytest.raises(AsniError, match="Sequential fails on an input of size 1x1x9x9"):
        budget(small_convolution(), 0.5, (1, 1, 9, 9))


def test_a_fraction_means_the_whole_number_that_it_gives() -> None:
    """0.29 * 100 is 28.999999999999996 in floating point."""
    assert budget(nn.Linear(10, 10, bias=False), 0.29, (1, 10)).limit == 29


def test_a_budget_of_another_network_is_refused_by_name() -> None:
    found = budget(small_convolution(), 0.5, (1, 1, 6, 6))
    weights = prunable(small_convolution())
    assert found.for_weights(weights).limit == found.limit
    assert found.for_weights({"module.3.weight": weights["3.weight"]}).costs.fixed == 16 * 18
    with pytest.raises(UsageError, match=r"no costs for 'head\.weight'"):
        found.for_weights({"head.weight": weights["3.weight"]})
    with pytest.raises(UsageError, match=r"18 weights in '0\.weight', and it has 96"):
        found.for_weights({"0.weight": weights["3.weight"]})


@pytest.mark.parametrize(
    ("counts", "costs"),
    [
        ((0, 10), (0.0, math.nan)),
        ((0, 10), (0.0, -1.0)),
        ((0, 10), (0.0, math.inf)),
        ((0, 10, 5), (0.0, 1.0, 2.0)),
        ((0, 3, 3, 5), (0.0, 1.0, 2.0, 3.0)),
        ((1, 10), (0.0, 1.0)),
        ((0, 10), (0.0,)),
        ((), ()),
    ],
)
def test_a_table_that_cannot_be_read_is_refused(counts: tuple[int, ...], costs: tuple[float, ...]) -> None:
    with pytest.raises(UsageError, match="a table of costs"):
        Table(counts, costs)


def test_the_budget_on_the_way_ends_at_exactly_its_limit() -> None:
    found = Budget(Costs({"a": (Table.linear(3, 0.1),)}), limit=0.07, whole=0.3)
    assert found.on_the_way(0.0, 0.9).limit == found.costs.dense
    assert found.on_the_way(0.9, 0.9).limit == 0.07


def test_a_cost_that_is_shown_rounded_up_is_enough() -> None:
    multiplications = Budget(Costs({}), limit=1, whole=3)
    milliseconds = Budget(Costs({}, unit="ms"), limit=1, whole=3)
    assert (multiplications.shown(1), multiplications.shown(1, up=True)) == ("0.333", "0.334")
    assert (milliseconds.shown(12.344), milliseconds.shown(12.344, up=True)) == ("12.3 ms", "12.4 ms")
    assert multiplications.shown(3 * 0.29, up=True) == "0.29"

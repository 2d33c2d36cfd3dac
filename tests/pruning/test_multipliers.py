"""Counts for each layer that add up to an exact number within a limit of cost, compared with all possible counts."""

from collections.abc import Iterator
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asni.pruning.costs import Table
from asni.pruning.multipliers import Ranks, by_number, by_price, counts_within

if TYPE_CHECKING:
    from asni.pruning.multipliers import Counts, Floats

sizes = st.lists(st.integers(1, 5), min_size=1, max_size=4)
prices = st.one_of(st.integers(0, 9).map(float), st.floats(1e-6, 1e6))


def ranks_of(
    layers: list[list[float]], tables: list[Table], least: list[int] | None = None, fixed: float = 0.0
) -> Ranks:
    """Layers whose weights have these gains."""

    def above(gains: "Floats") -> "Counts":
        return np.array(
            [[sum(gain > each for gain in layer) for each in row] for layer, row in zip(layers, gains, strict=True)]
        )

    living = np.array([len(layer) for layer in layers])
    return Ranks(tables, living, np.array(least or [0] * len(layers)), above, fixed)


def choices(ranks: Ranks, keep: int) -> "Iterator[Counts]":
    """All counts that add up to the number."""
    ranges = (range(least, most + 1) for least, most in zip(ranks.least.tolist(), ranks.living.tolist(), strict=True))
    return (np.array(counts) for counts in product(*ranges) if sum(counts) == keep)


def gained(layers: list[list[float]], counts: "Counts") -> float:
    return sum(sum(sorted(layer, reverse=True)[:count]) for layer, count in zip(layers, counts.tolist(), strict=True))


@st.composite
def linear(draw: st.DrawFn, gain: st.SearchStrategy[float]) -> tuple[list[list[float]], Ranks, int, float]:
    """Layers with their prices, a number to keep, and a limit about what that may cost."""
    layers = [draw(st.lists(gain, min_size=size, max_size=size, unique=True)) for size in draw(sizes)]
    tables = [Table.linear(len(layer), draw(prices)) for layer in layers]
    ranks = ranks_of(layers, tables)
    keep = draw(st.integers(0, int(ranks.living.sum())))
    costs = sorted(map(ranks.cost, choices(ranks, keep)))
    return layers, ranks, keep, draw(st.one_of(st.sampled_from(costs), st.floats(0.9 * costs[0], 1.1 * costs[-1])))


@given(linear(st.floats(1e-3, 1e3)))
def test_no_other_choice_that_costs_as_little_gains_more(given_: tuple[list[list[float]], Ranks, int, float]) -> None:
    layers, ranks, keep, limit = given_
    counts = counts_within(ranks, keep, limit)
    assert counts.sum() == keep
    others = list(choices(ranks, keep))
    if ranks.cost(counts) <= limit * (1 + 1e-12):
        best = max(gained(layers, each) for each in others if ranks.cost(each) <= ranks.cost(counts))
        assert gained(layers, counts) >= best * (1 - 1e-9)
    else:
        assert ranks.cost(counts) == pytest.approx(min(map(ranks.cost, others)))
        assert limit < min(map(ranks.cost, others)) * (1 + 1e-12)


@given(linear(st.sampled_from([0.0, 1.0, 2.0, 3.0, 4.0, 5.0])))
def test_a_limit_that_binds_is_used_but_for_less_than_the_price_of_a_weight(
    given_: tuple[list[list[float]], Ranks, int, float],
) -> None:
    _, ranks, keep, limit = given_
    free = by_number(ranks, keep)
    counts = counts_within(ranks, keep, limit)
    if ranks.cost(free) <= limit:
        assert counts.tolist() == free.tolist()
    elif ranks.cost(counts) <= limit:
        assert limit - ranks.cost(counts) < max(table.price(1) for table in ranks.tables)


def test_equal_gains_at_the_threshold_are_shared_up_to_the_limit() -> None:
    ranks = ranks_of([[1.0] * 100, [1.0] * 100], [Table.linear(100, 3.0), Table.linear(100, 1.0)])
    assert counts_within(ranks, 120, limit=1000.0).tolist() == [100, 20]
    assert counts_within(ranks, 120, limit=161.0).tolist() == [20, 100]
    assert counts_within(ranks, 100, limit=151.0).tolist() == [25, 75]


def test_a_single_exchange_is_the_one_that_loses_least() -> None:
    """One of the priced weights has to go: a 1 of the second layer rather than a 4 of the third."""
    prices_of_layers = (0.0, 1.0, 1.0, 0.0)
    ranks = ranks_of(
        [[1.0, 4.0], [1.0, 4.0], [4.0, 9.0], [1.0, 4.0]], [Table.linear(2, each) for each in prices_of_layers]
    )
    assert counts_within(ranks, 7, limit=3.0).tolist() == [2, 1, 2, 2]


def test_the_minimum_of_each_layer_is_kept_however_dear() -> None:
    tables = [Table.linear(4, 100.0), Table.linear(4, 1.0)]
    ranks = ranks_of([[1.0, 2.0, 3.0, 4.0], [0.1, 0.2, 0.3, 0.4]], tables, least=[2, 0])
    assert counts_within(ranks, 4, limit=250.0).tolist() == [2, 2]
    assert counts_within(ranks, 4, limit=0.0).tolist() == [2, 2]
    assert counts_within(ranks, 4, limit=310.0).tolist() == [3, 1]


def test_infinite_limits_gains_and_prices_end_the_search() -> None:
    layers = [[1e300, 1e-300, 0.0, -5.0], [float("inf"), 1.0, 1.0, -1e300]]
    ranks = ranks_of(layers, [Table.linear(4, 1e12), Table.linear(4, 1e-12)])
    for keep in range(9):
        assert counts_within(ranks, keep, float("inf")).sum() == keep
        assert counts_within(ranks, keep, 1e12).sum() == keep
        assert counts_within(ranks, keep, -1.0).tolist() == [max(keep - 4, 0), min(keep, 4)]


@st.composite
def measured(draw: st.DrawFn, weights: int) -> Table:
    """As measured: plateaus, jumps, and costs that fall where there are more weights."""
    inner = draw(st.lists(st.integers(1, weights), max_size=3, unique=True).map(sorted))
    counts = tuple(dict.fromkeys((0, *inner, weights)))
    return Table(counts, tuple(draw(st.sampled_from([0.0, 0.5, 1.0, 1.1, 2.0, 7.0])) for _ in counts))


@given(st.data())
def test_measured_costs_keep_to_the_limit_wherever_the_cheapest_choice_does(data: st.DataObject) -> None:
    layers = [data.draw(st.lists(st.floats(1e-3, 1e3), min_size=size, max_size=size)) for size in data.draw(sizes)]
    ranks = ranks_of(layers, [data.draw(measured(len(layer))) for layer in layers], fixed=data.draw(prices))
    keep = data.draw(st.integers(0, int(ranks.living.sum())))
    cheapest = by_price(ranks.tables, keep, ranks.living, ranks.least)
    limit = data.draw(st.floats(0, 2 * ranks.cost(ranks.living) + 1))
    counts = counts_within(ranks, keep, limit)
    assert counts.sum() == cheapest.sum() == keep
    assert ((ranks.least <= counts) & (counts <= ranks.living)).all()
    assert ranks.cost(counts) <= max(limit, ranks.cost(cheapest)) * (1 + 1e-11)


def test_out_of_reach_the_largest_gains_are_kept_of_choices_that_cost_the_same() -> None:
    ranks = ranks_of([[1.0, 2.0, 9.0], [3.0, 8.0, 7.0]], [Table.linear(3, 0.3), Table.linear(3, 0.3)])
    assert counts_within(ranks, 3, limit=0.85).tolist() == [1, 2]


@given(st.data())
def test_the_cheapest_choice_stays_the_same_within_all_that_contains_it(data: st.DataObject) -> None:
    tables = [data.draw(measured(size)) for size in data.draw(sizes)]
    whole, none = np.array([table.weights for table in tables]), np.zeros(len(tables), dtype=np.int64)
    keep = data.draw(st.integers(0, int(whole.sum())))
    cheapest = by_price(tables, keep, whole, none)
    living = np.array([data.draw(st.integers(low, high)) for low, high in zip(cheapest, whole, strict=True)])
    assert by_price(tables, keep, living, none).tolist() == cheapest.tolist()


@given(linear(st.floats(1e-3, 1e3)))
def test_cheapest_and_dearest_are_those_of_all_choices(given_: tuple[list[list[float]], Ranks, int, float]) -> None:
    _, ranks, keep, _ = given_
    costs = [ranks.cost(each) for each in choices(ranks, keep)]
    for bound, dearest in ((min(costs), False), (max(costs), True)):
        found = by_price(ranks.tables, keep, ranks.living, ranks.least, dearest=dearest)
        assert ranks.cost(found) == pytest.approx(bound)


def test_costs_that_rise_faster_and_faster_are_spread_over_layers() -> None:
    convex = Table((0, 5, 10), (0.0, 1.0, 10.0))
    ten, none = np.array([10, 10]), np.array([0, 0])
    assert by_price([convex, convex], 10, ten, none).tolist() == [5, 5]
    assert by_price([convex, convex], 10, ten, none, dearest=True).tolist() == [10, 0]


def test_costs_that_rise_slower_and_slower_are_priced_as_a_whole() -> None:
    concave, line = Table((0, 5, 10), (0.0, 9.0, 10.0)), Table.linear(10, 0.5)
    ten, none = np.array([10, 10]), np.array([0, 0])
    assert by_price([concave, line], 10, ten, none).tolist() == [0, 10]
    assert by_price([line, line], 4, np.array([1, 10]), none).tolist() == [1, 3]

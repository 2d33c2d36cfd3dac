"""The search finds a setting, reports how many trainings it took, and raises an error if there is none."""

import math
import re
from collections.abc import Callable
from contextlib import suppress
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from asni.errors import AsniError
from asni.methods.search import HALVINGS, TRAININGS, search


@given(wanted=st.integers(60, 9_000), steepness=st.floats(0.3, 3), middle=st.floats(3, 7))
@example(wanted=5672, steepness=3.0, middle=6.71875)
def test_it_comes_within_the_tolerance_of_any_number_on_a_falling_curve(
    wanted: int, steepness: float, middle: float
) -> None:
    tried: list[int] = []

    def weights_at(setting: float) -> int:
        tried.append(round(10_000 / (1 + 2 ** (steepness * (setting - middle)))))
        return tried[-1]

    search(weights_at, wanted, low=-20, high=40, tolerance=0.02)
    assert abs(tried[-1] - wanted) <= 0.02 * wanted
    assert all(abs(weights - wanted) > 0.02 * wanted for weights in tried[:-1])
    assert len(tried) <= TRAININGS


@settings(deadline=None)
@given(wanted=st.integers(60, 9_000), steepness=st.floats(0.1, 3), middle=st.floats(-10, 30))
@example(wanted=5672, steepness=3.0, middle=6.71875)
def test_it_never_leaves_a_bracket_and_arrives_wherever_bisection_does(
    wanted: int, steepness: float, middle: float
) -> None:
    def weights_at(setting: float) -> int:
        return round(10_000 / (1 + 2 ** (steepness * (setting - middle))))

    if arrives_by_bisection(weights_at, wanted, low=-20, high=40):
        search(inside_the_bracket(weights_at, wanted), wanted, low=-20, high=40, tolerance=0.02)


@settings(deadline=None)
@given(start=st.floats(0, 1 - 2**-HALVINGS), rise=st.floats(0, 50), drop=st.floats(0, 50), bend=st.floats(0.1, 10))
def test_it_arrives_however_sharply_the_curve_bends_around_the_right_settings(
    start: float, rise: float, drop: float, bend: float
) -> None:
    def weights_at(setting: float) -> int:
        if setting < start:
            return round(10_300 * (1 + rise * math.pow(start - setting, bend)))
        end = start + 2**-HALVINGS
        return 10_000 if setting <= end else round(9_700 / (1 + drop * math.pow(setting - end, bend)))

    search(inside_the_bracket(weights_at, 10_000), 10_000, low=0, high=1, tolerance=0.02)


@given(wanted=st.integers(3_000, 9_000), numbers=st.randoms(use_true_random=False))
def test_it_arrives_although_chance_moves_every_training_by_some_per_cent(wanted: int, numbers: Random) -> None:
    def weights_at(setting: float) -> int:
        return round(50_000 * math.exp(-5 * setting) * numbers.uniform(0.95, 1.05))

    try:
        setting = search(weights_at, wanted, low=0, high=1, tolerance=0.02)
    except AsniError as error:
        # By chance alone fifteen tries can miss, but then the nearest did not miss by much.
        nearest = int(re.findall(r"\d[\d,]*", str(error))[-1].replace(",", ""))
        assert nearest == pytest.approx(wanted, rel=0.06)
    else:
        assert 50_000 * math.exp(-5 * setting) == pytest.approx(wanted, rel=0.075)


def test_a_number_out_of_reach_is_an_error_that_says_how_near_it_came_after_trying_the_very_end() -> None:
    tried: list[float] = []

    def weights_at(setting: float) -> int:
        tried.append(setting)
        return round(500 + 100 * (1 - setting))

    with pytest.raises(AsniError, match=r"\b5 trainings .* 100 weights.* 500\b"):
        search(weights_at, 100, low=0, high=1, tolerance=0.02)
    assert tried[-1] == 1
    with pytest.raises(AsniError, match=r"\b5 trainings .* 900 weights.* 600\b"):
        search(weights_at, 900, low=0, high=1, tolerance=0.02)
    assert tried[-1] == 0


def test_nearly_equal_settings_with_the_same_noise_stop_few_of_many_searches() -> None:
    arrived = 0
    for wanted in range(3_000, 9_000, 30):
        numbers, luck = Random(wanted), dict[int, float]()

        def weights_at(setting: float, numbers: Random = numbers, luck: dict[int, float] = luck) -> int:
            share = luck.setdefault(round(setting / 0.001), numbers.gauss(1, 0.05))
            return round(50_000 * math.exp(-5 * setting) * share)

        with suppress(AsniError):
            search(weights_at, wanted, low=0, high=1, tolerance=0.02)
            arrived += 1
    assert arrived >= 180, "of 200"


def inside_the_bracket(weights_at: Callable[[float], int], wanted: int) -> Callable[[float], int]:
    """`weights_at`, which fails for a setting outside the bracket, once there is one."""
    above, below = list[float](), list[float]()

    def checked(setting: float) -> int:
        if above and below:
            assert max(above) < setting < min(below)
        weights = weights_at(setting)
        (above if weights > wanted else below).append(setting)
        return weights

    return checked


def arrives_by_bisection(weights_at: Callable[[float], int], wanted: int, *, low: float, high: float) -> bool:
    for _ in range(TRAININGS):
        middle = (low + high) / 2
        weights = weights_at(middle)
        if abs(weights - wanted) <= 0.02 * wanted:
            return True
        low, high = (middle, high) if weights > wanted else (low, middle)
    return False

import math
from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from asni.errors import UsageError
from asni.pruning.schedules import Polynomial, Schedule, Sigmoid, Step, kept, last_pruning

sparsities = st.floats(0.01, 0.99)
lengths = st.integers(1, 400)


def test_the_paper_s_formula_at_every_epoch() -> None:
    schedule = Sigmoid.from_alpha(98, epochs=50, gamma=5)
    for epoch in range(49):
        assert schedule(epoch, 50) == pytest.approx(0.98 / (1 + math.exp(-(epoch - 25) / 5)), rel=1e-12)


def test_nothing_changes_after_the_last_epoch_but_one() -> None:
    schedule = Sigmoid(0.97)
    assert schedule(48, 50) == schedule(49, 50) == 0.97
    assert schedule(47, 50) < 0.97


def test_gamma_is_a_tenth_of_the_epochs_by_default() -> None:
    assert Sigmoid(0.9)(20, 90) == Sigmoid(0.9, gamma=9)(20, 90)
    assert Sigmoid(0.9)(20, 90) != Sigmoid(0.9, gamma=10)(20, 90)


def test_beta_moves_the_middle() -> None:
    assert Sigmoid(0.9, beta=0.25)(40, 90) > Sigmoid(0.9, beta=0.5)(40, 90) > Sigmoid(0.9, beta=0.75)(40, 90)


def test_a_short_training_needs_an_alpha_above_100_percent() -> None:
    assert Sigmoid(0.97).alpha(epochs=8) > 100
    assert Sigmoid(0.97).alpha(epochs=160) == pytest.approx(97.75, abs=0.01)


def test_alpha_and_final_sparsity_are_each_other_s_inverse() -> None:
    assert Sigmoid.from_alpha(98.5, epochs=20, gamma=2).alpha(20) == pytest.approx(98.5, rel=1e-12)


@given(sparsities, lengths, st.floats(0, 1), st.floats(1e-3, 1e3), st.just(0.0) | st.floats(1e-6, 0.5))
def test_the_curve_only_rises_and_ends_at_the_final_sparsity(
    final: float, epochs: int, beta: float, gamma: float, least: float
) -> None:
    schedule = Sigmoid(final, beta, gamma, least)
    curve = [schedule(epoch, epochs) for epoch in range(epochs)]
    assert curve[last_pruning(epochs)] == final
    assert curve == sorted(curve)
    assert 0 <= curve[0] <= final


def test_a_small_share_is_left_out_and_lost() -> None:
    # p = 0.0067, 0.0180, 0.0474, ... 0.5 in the middle; the second share of the living weights is 1.1 %, the third 3 %.
    schedule = Sigmoid.from_alpha(100, epochs=10, gamma=1, least=0.02)
    whole = Sigmoid.from_alpha(100, epochs=10, gamma=1)
    assert [schedule(epoch, 10) for epoch in (0, 1)] == [0, 0]
    third = (whole(2, 10) - whole(1, 10)) / (1 - whole(1, 10))
    assert schedule(2, 10) == pytest.approx(third)
    assert 1 - schedule.final == pytest.approx((1 - whole.final) / (1 - whole(1, 10)))


def test_every_pruning_of_the_authors_rule_takes_more_than_the_least_share() -> None:
    schedule = Sigmoid(0.9623, gamma=16, least=0.001)
    curve = [0.0, *(schedule(epoch, 160) for epoch in range(160))]
    shares = [(after - before) / (1 - before) for before, after in pairwise(curve)]
    assert min(share for share in shares if share > 1e-12) > 0.001
    assert sum(share <= 1e-12 for share in shares) > 10


@given(st.floats(50, 99), st.integers(3, 200), st.floats(1e-4, 0.05))
def test_alpha_under_the_authors_rule_gives_the_schedule_back(alpha: float, epochs: int, least: float) -> None:
    schedule = Sigmoid.from_alpha(alpha, epochs, least=least)
    assume(schedule.final > 0)
    again = Sigmoid.from_alpha(schedule.alpha(epochs), epochs, least=least)
    assert again.final == pytest.approx(schedule.final, abs=1e-9)


@pytest.mark.parametrize("beta", [-0.1, 7.0, math.nan])
def test_a_beta_outside_of_the_training_is_refused(beta: float) -> None:
    with pytest.raises(UsageError, match=f"beta.* {beta}"):
        Sigmoid(0.9, beta=beta)


def test_a_curve_that_rises_after_the_last_pruning_has_no_alpha_but_still_ends_where_asked() -> None:
    schedule = Sigmoid(0.9, beta=1, gamma=0.001)
    assert schedule.alpha(10) == math.inf
    assert [schedule(epoch, 10) for epoch in (7, 8, 9)] == [0, 0.9, 0.9]


@pytest.mark.parametrize("least", [-0.1, 1.0, math.nan])
def test_a_least_share_that_is_no_fraction_is_refused(least: float) -> None:
    with pytest.raises(UsageError, match=f"least.* {least}"):
        Sigmoid(0.9, least=least)


@given(st.integers(1, 10**8), sparsities)
def test_kept_is_the_nearest_whole_number(prunable: int, sparsity: float) -> None:
    assert abs(kept(prunable, sparsity) - prunable * (1 - sparsity)) <= 0.5


schedules: st.SearchStrategy[tuple[Schedule, float]] = sparsities.flatmap(
    lambda final: st.tuples(
        st.one_of(
            st.builds(Polynomial, st.just(final), st.floats(0.5, 5), st.floats(0, 0.4), st.floats(0.5, 1)),
            st.builds(Step, st.just(final), st.floats(0.01, 1)),
        ),
        st.just(final),
    )
)


@given(schedules, st.integers(1, 60))
def test_a_schedule_never_falls_and_ends_exactly_where_asked(pair: tuple[Schedule, float], epochs: int) -> None:
    schedule, final = pair
    curve = [schedule(epoch, epochs) for epoch in range(epochs)]
    assert curve == sorted(curve)
    assert 0 <= curve[0] <= final
    assert curve[last_pruning(epochs)] == final
    assert curve[-1] == final


@given(sparsities, st.integers(3, 200))
def test_polynomial_and_step_start_at_zero(final: float, epochs: int) -> None:
    assert Polynomial(final, power=1)(0, epochs) == 0
    assert Polynomial(final)(0, epochs) == 0
    assert Step(final)(0, epochs) == 0


def test_the_cubic_has_the_published_shape() -> None:
    # Zhu and Gupta, equation 1, with s_i = 0, s_f = 0.8 and n = 4: 0.8 (1 - (1 - x)^3) at x = 0, 1/4, 1/2, 3/4, 1.
    curve = [Polynomial(0.8, power=3)(epoch, 6) for epoch in range(6)]
    assert curve == pytest.approx([0, 0.4625, 0.7, 0.7875, 0.8, 0.8])


def test_a_pruning_between_begin_and_end_waits_before_and_heals_after() -> None:
    curve = [Polynomial(0.5, power=1, begin=0.2, end=0.6)(epoch, 12) for epoch in range(12)]
    assert curve == pytest.approx([0, 0, 0, 0.125, 0.25, 0.375, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5])


@pytest.mark.parametrize(("begin", "end"), [(0.5, 0.5), (0.6, 0.5), (-0.1, 1), (0, 1.1)])
def test_a_pruning_that_ends_before_it_begins_is_refused(begin: float, end: float) -> None:
    with pytest.raises(UsageError, match=f" {begin} .* {end} "):
        Polynomial(0.9, begin=begin, end=end)


@pytest.mark.parametrize("power", [0.0, -1.0, math.inf, math.nan])
def test_a_polynomial_without_a_power_is_refused(power: float) -> None:
    with pytest.raises(UsageError, match=f"power.* {power}"):
        Polynomial(0.9, power=power)


@pytest.mark.parametrize("gamma", [0.0, -1.0, math.nan])
def test_a_sigmoid_without_a_width_is_refused(gamma: float) -> None:
    with pytest.raises(UsageError, match=f"gamma.* {gamma}"):
        Sigmoid(0.9, gamma=gamma)

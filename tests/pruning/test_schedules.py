import math

import pytest
from hypothesis import given
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


@given(sparsities, lengths, st.floats(0, 1), st.floats(1e-3, 1e3))
def test_the_curve_only_rises_and_ends_at_the_final_sparsity(
    final: float, epochs: int, beta: float, gamma: float
) -> None:
    schedule = Sigmoid(final, beta, gamma)
    curve = [schedule(epoch, epochs) for epoch in range(epochs)]
    assert curve[last_pruning(epochs)] == final
    assert curve == sorted(curve)
    assert 0 <= curve[0] <= final


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

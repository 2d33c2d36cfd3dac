import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asni.schedules import Sigmoid, kept, last_pruning

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
def test_asked_is_got_and_the_curve_only_rises(final: float, epochs: int, beta: float, gamma: float) -> None:
    schedule = Sigmoid(final, beta, gamma)
    curve = [schedule(epoch, epochs) for epoch in range(epochs)]
    assert curve[last_pruning(epochs)] == final
    assert curve == sorted(curve)
    assert 0 <= curve[0] <= final


@given(st.integers(1, 10**8), sparsities)
def test_kept_is_the_nearest_whole_number(prunable: int, sparsity: float) -> None:
    assert abs(kept(prunable, sparsity) - prunable * (1 - sparsity)) <= 0.5

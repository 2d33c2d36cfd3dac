"""The three policies of the paper, epoch by epoch."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asni.recipes import load, lr_at, names
from asni.recipes.learning_rate import warm_cosine


def test_adam_recipes_keep_their_rate() -> None:
    training = load("mnist-conv2").training
    assert {lr_at(training, epoch) for epoch in range(training.epochs)} == {2e-4}


def test_the_cosine_starts_at_the_rate_and_ends_where_delta_says() -> None:
    training = load("cifar10-vgg16").training
    assert lr_at(training, 0) == 0.05
    assert lr_at(training, 84) == pytest.approx(0.05 / 2)
    assert lr_at(training, 160) == pytest.approx(0.0056 * 0.05, rel=0.01)


def test_the_warm_up_rises_in_ten_steps_then_the_cosine_falls() -> None:
    training = load("imagenet-resnet50-80").training
    rates = [lr_at(training, epoch) for epoch in range(90)]
    assert rates[:10] == pytest.approx([0.035 * step for step in range(1, 11)])
    assert rates[10] == 0.35
    assert all(later < earlier for earlier, later in pairwise(rates[10:]))
    assert rates[89] > 0


def test_delta_zero_ends_at_zero() -> None:
    assert warm_cosine(30, 30, delta=0.0, warmup=3) == pytest.approx(0, abs=1e-15)


@given(name=st.sampled_from(names()), epochs=st.integers(1, 300))
def test_the_rate_is_positive_and_never_above_the_recipes(name: str, epochs: int) -> None:
    training = load(name).override(epochs=epochs).training
    assert all(0 < lr_at(training, epoch) <= training.lr for epoch in range(epochs))

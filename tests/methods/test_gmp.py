"""GMP: the curve of Zhu and Gupta at its end points."""

import pytest

from asni.methods.gmp import GMP
from tests.training.training_by_hand import OPTIMIZERS, alive, small_network, train


def test_pruning_starts_after_a_fifth_and_reaches_the_target_exactly_at_four_fifths() -> None:
    model = small_network()
    optimizer = OPTIMIZERS["adam"](model.parameters())
    GMP(model, optimizer, sparsity=0.9, epochs=2, steps_per_epoch=26)
    counts: list[int] = []
    train(model, optimizer, range(52), lambda step: counts.append(alive(model)))
    # 52 prunings, the last of them number 50: x runs from 0 at number 10 to 1 at number 40.
    assert counts[10] == 98
    assert counts[11] < 98
    assert counts[25] == round(98 * (1 - 0.9 * (1 - 0.5**3)))
    assert counts[39] >= counts[40] == counts[51] == 10


def test_the_published_interval() -> None:
    model = small_network()
    pruner = GMP(model, OPTIMIZERS["sgd"](model.parameters()), sparsity=0.9, epochs=50, steps_per_epoch=1000)
    assert pruner.every == 100
    assert pruner.schedule(500, 500) == pytest.approx(0.9, abs=0)

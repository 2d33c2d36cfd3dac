"""Train, prune once, fine-tune."""

import torch

from asni.methods.magnitude import Magnitude
from tests.training.training_by_hand import OPTIMIZERS, alive, small_network, train, two_layers, weights


def test_the_network_is_dense_in_the_first_half_and_exact_in_the_second() -> None:
    model = small_network()
    optimizer = OPTIMIZERS["sgd"](model.parameters())
    Magnitude(model, optimizer, sparsity=0.9, epochs=4, steps_per_epoch=10)
    counts: list[int] = []
    train(model, optimizer, range(40), lambda step: counts.append(alive(model)))
    assert counts == [98] * 19 + [10] * 21


def test_one_threshold_for_all_layers() -> None:
    model = two_layers([[-32.0, 32.0], [8.0, -8.0]], [[-0.5, 0.5], [0.125, -0.125]])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    Magnitude(model, optimizer, sparsity=0.5, epochs=1, steps_per_epoch=1).prune(0.5)
    assert weights(model) == [[[-32.0, 32.0], [8.0, -8.0]], [[0.0, 0.0], [0.0, 0.0]]]

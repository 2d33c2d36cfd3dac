"""A small network is trained on one thread, whatever torch has; a forked process starts threads of its own.

On them, subnormal numbers are zero: a processor may take a hundred times as long for them.
"""

import os
import signal

import numpy as np
import pytest
import torch
from torch import nn

from asni.sparse.network.network import Network
from asni.sparse.network.threads import useful_threads
from asni.sparse.optimizers.nonzeros import Nonzeros
from asni.sparse.tracing.tracing import traced
from tests.sparse.test_optimizers import held_by


@pytest.mark.parametrize(
    ("images", "living", "threads"),
    [
        # 3 passes x 1,000 nonzeros x images.
        (100, 1000, 1),
        (6_667, 1000, 2),
        (100_000, 1000, 4),
        (100_000, 10, 1),
    ],
)
def test_each_thread_has_ten_million_multiplications(
    images: int, living: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)
    model = nn.Linear(100, 100)
    mask = (torch.arange(10_000) < living).view(100, 100)
    assert useful_threads(traced(model, torch.zeros(2, 100)), model, {"weight": mask}, images) == threads


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_process_trains_on() -> None:
    model = nn.Linear(300, 300)
    held = held_by(model, {}, threads=2)
    optimizer = Nonzeros(held, torch.optim.SGD(model.parameters(), lr=0.5))
    held.vector.gradient[0] = 1.0
    optimizer.step()
    before = held.vector.weights[:90_000].copy()
    child = os.fork()
    if child == 0:
        # Threads that nobody started would be waited for in vain.
        signal.alarm(30)
        optimizer.step()
        os._exit(0 if (held.vector.weights[:90_000] == before - 0.5).all() else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_subnormal_numbers_become_zero_in_the_kernels_and_nowhere_else() -> None:
    model = nn.Linear(300, 300)
    held = held_by(model, {}, threads=2)
    optimizer = Nonzeros(held, torch.optim.SGD(model.parameters(), lr=1.0))
    held.vector.weights[:], held.vector.gradient[0] = 0.0, 1e-40
    optimizer.step()
    assert not held.vector.weights.any()
    network = Network(traced(model, torch.zeros(2, 300)), model, {}, items=2, threads=2)
    network.weights[:] = 1e-40
    assert not network.forward(np.ones((2, 300), np.float32), training=True).any()
    assert (held.vector.gradient[0] * np.float32(0.5)).all()
    assert (torch.from_numpy(held.vector.gradient[0]) * 0.5).all()

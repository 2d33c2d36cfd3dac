"""A small network is trained on one thread, whatever torch has."""

import pytest
import torch
from torch import nn

from asni.sparse.network.threads import useful_threads
from asni.sparse.tracing.tracing import traced


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

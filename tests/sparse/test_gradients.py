"""A network on its nonzeros has the loss, the gradients and the statistics of PyTorch in float64."""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from random import Random
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from asni.engine.program.layouts import Machine
from asni.sparse.network.network import Network
from asni.sparse.steps import UnsupportedError
from asni.sparse.tracing.tracing import traced
from tests.engine.native_programs import ISAS, full_of_nan, values_apart
from tests.engine.sanitized import gaps_forbidden
from tests.sparse.compared import check_step, drawn_for, networks_on
from tests.sparse.forced_plans import any_plan
from tests.sparse.random_networks import random_network
from tests.sparse.small_models import Own


@pytest.fixture(scope="module", params=ISAS)
def machine(request: pytest.FixtureRequest) -> Iterator[Machine]:
    """Each instruction set in turn."""
    with networks_on(request.param) as found:
        yield found


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(
    random=st.randoms(use_true_random=False),
    count=st.integers(1, 7),
    items=st.one_of(st.integers(1, 4), st.integers(1, 40)),
    room=st.sampled_from([0, 0, 1, 20]),
    threads=st.integers(1, 3),
    plans=st.one_of(st.none(), st.integers(0, 999)),
    scale=st.sampled_from([1.0, 0.3]),
)
def test_random_networks_have_the_gradients_of_float64(
    machine: Machine, random: Random, count: int, items: int, room: int, threads: int, plans: int | None, scale: float
) -> None:
    drawn = random_network(random, count, items)
    # Each value lies alone between NaNs: what is read and was not written becomes NaN.
    with values_apart() as spans, nullcontext() if plans is None else any_plan(Random(plans)):
        network = Network(drawn.steps, drawn.model, drawn.masks, items=items + room, threads=threads)
    apart = full_of_nan(network._memory, spans)
    network.load()
    with gaps_forbidden(apart):
        is_told = check_step(drawn, network, scale)
    assume(is_told)
    assert np.isnan(apart.gaps()).all(), "something was written outside of all values"


def conv(*sizes: int, **options: int) -> nn.Conv2d:
    return nn.Conv2d(*sizes, **options)  # type: ignore[arg-type]


def residual(self: Any, x: Tensor) -> Any:
    x = self.first(x)
    for block in self.blocks:
        x = (block(x) + x).relu()
    return self.last(x.mean((2, 3)))


def three_readers(self: Any, x: Tensor) -> Any:
    x = self.first(x).relu()
    return self.last((self.a(x) + self.b(x) + x).flatten(1))


def pooled_and_read(self: Any, x: Tensor) -> Any:
    x = self.first(x).relu()
    return self.last((self.pool(x) + self.other(x)).flatten(1))


MODELS: dict[str, Callable[[], nn.Module]] = {
    "linear layers": lambda: nn.Sequential(nn.Flatten(), nn.Linear(192, 40), nn.ReLU(), nn.Linear(40, 10)),
    "pools": lambda: nn.Sequential(
        conv(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), conv(8, 9, 3, padding=1), nn.ReLU(),
        nn.MaxPool2d(3, 2, 1), nn.Flatten(), nn.Linear(36, 10),
    ),
    "pools in a row": lambda: nn.Sequential(
        conv(3, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.MaxPool2d(2), nn.AvgPool2d(2), nn.Flatten(),
        nn.Linear(8, 10),
    ),
    "a pool of images": lambda: nn.Sequential(
        nn.MaxPool2d(2), conv(3, 8, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(32, 10)
    ),
    "a pool that is not alone": lambda: Own(
        pooled_and_read, first=conv(3, 4, 3, padding=1), pool=nn.MaxPool2d(2), other=conv(4, 4, 2, stride=2),
        last=nn.Linear(64, 10),
    ),
    "residuals": lambda: Own(
        residual, first=conv(3, 8, 3, padding=1, stride=2), last=nn.Linear(8, 10),
        blocks=nn.ModuleList(
            nn.Sequential(conv(8, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), conv(8, 8, 1), nn.BatchNorm2d(8))
            for _ in range(2)
        ),
    ),
    "depthwise": lambda: nn.Sequential(
        conv(3, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8), nn.ReLU(), conv(8, 8, 3, padding=1, groups=8),
        nn.BatchNorm2d(8), nn.ReLU(), conv(8, 16, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10),
    ),
    "dropouts": lambda: nn.Sequential(
        conv(3, 4, 3, padding=1), nn.ReLU(), nn.Dropout(0.4), conv(4, 4, 3, padding=1), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Dropout(0.2), nn.Linear(64, 10),
    ),
    "no padding": lambda: nn.Sequential(
        conv(3, 4, 3), nn.ReLU(), conv(4, 5, 3), nn.ReLU(), nn.Flatten(), nn.Linear(80, 10)
    ),
    "a ReLU at the end": lambda: nn.Sequential(nn.Flatten(), nn.Linear(192, 10), nn.ReLU()),
    "images added to a layer": lambda: Own(
        lambda self, x: self.last((x + self.first(x)).flatten(1)), first=conv(3, 3, 3, padding=1),
        last=nn.Linear(192, 10),
    ),
    "a map as logits": lambda: nn.Sequential(conv(3, 3, 3, padding=1), nn.AvgPool2d(4), nn.Flatten()),
    "a map flattened for others than linear layers": lambda: nn.Sequential(
        conv(3, 4, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Dropout(0.3), nn.BatchNorm1d(256), nn.Linear(256, 10)
    ),
    "a convolution of a flattened map": lambda: Own(
        lambda self, x: self.last(self.first(x).relu().flatten(1).view(-1, 128, 1, 1)).flatten(1),
        first=conv(3, 2, 3, padding=1), last=conv(128, 10, 1),
    ),
    "a value with three readers": lambda: Own(
        three_readers, first=conv(3, 4, 3), a=conv(4, 4, 3, padding=1), b=conv(4, 4, 1), last=nn.Linear(144, 10)
    ),
}  # fmt: skip


@pytest.mark.parametrize("density", [0.2, 1.0])
@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_models_have_the_gradients_of_float64(make: Callable[[], nn.Module], density: float) -> None:
    torch.manual_seed(1)
    model = make()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.mul_(torch.rand(parameter.shape) < density).div_(density**0.5)
            else:
                parameter.add_(torch.randn(parameter.shape) / 4)
    steps = traced(model, torch.zeros(2, 3, 8, 8))
    for _ in range(30):
        images, labels = torch.randn(19, 3, 8, 8), torch.randint(0, 10, (19,))
        drawn = drawn_for(steps, model, images.numpy(), labels.numpy())
        network = Network(steps, model, drawn.masks, items=30, threads=2)
        network.load()
        if check_step(drawn, network, 1.0):
            return
    pytest.fail("every batch came near to a kink")


def test_a_padded_convolution_of_a_flattened_map_is_refused() -> None:
    model = Own(
        lambda self, x: self.last(self.first(x).flatten(1).view(-1, 128, 1, 1)).flatten(1),
        first=conv(3, 2, 1), last=conv(128, 10, 3, padding=1),
    )  # fmt: skip
    with pytest.raises(UnsupportedError, match=r": a flattened map that a convolution pads$"):
        Network(traced(model, torch.zeros(2, 3, 8, 8)), model, {}, items=2, threads=1)

"""Batch norm in the native core: its values, running statistics and gradients are those of PyTorch in float64."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

from asni.engine.program.layouts import Machine
from tests.engine.native_programs import ISAS
from tests.sparse.drawn_maps import BIG, Case, Draw, cases, check, check_target, double
from tests.sparse.kernel_calls import Call, Map, Target, run

pytestmark = pytest.mark.skipif(not ISAS, reason="there is no native core")


@dataclass
class Norm:
    """A batch norm on maps: its parameters, and its two calls."""

    draw: Draw
    case: Case
    relu: bool = False
    training: bool = True
    epsilon: float = 1e-5
    momentum: float = 0.1

    def __post_init__(self) -> None:
        channels = self.case.channels
        has_weight, has_buffers = self.draw.chance(), self.draw.chance() or not self.training
        self.weight = self.draw.numbers(channels) if has_weight else None
        self.bias = self.draw.numbers(channels) if has_weight else None
        self.running_mean = self.draw.numbers(channels) if has_buffers else None
        self.running_var = self.draw.numbers(channels) ** 2 + np.float32(0.1) if has_buffers else None
        self.mean, self.inverse = np.full((2, channels), np.nan, np.float32)
        self.dweight, self.dbias = np.full((2, channels), np.nan, np.float32)

    def forward(self, residual: str | None) -> Call:
        fields = {
            **self.case.size, "relu": int(self.relu), "training": int(self.training), "weight": self.weight,
            "bias": self.bias, "mean": self.mean, "inverse": self.inverse, "running_mean": self.running_mean,
            "running_var": self.running_var, "momentum": self.momentum, "epsilon": self.epsilon,
        }  # fmt: skip
        return Call("batch_norm", {"x": "x", "residual": residual, "y": "y"}, fields)

    def backward(self, dx: Target, dresidual: Target) -> Call:
        has_weight = self.weight is not None
        fields = {
            **self.case.size, "weight": self.weight, "mean": self.mean, "inverse": self.inverse,
            "dweight": self.dweight if has_weight else None, "dbias": self.dbias if has_weight else None,
        }  # fmt: skip
        return Call("batch_norm_backward", {"dy": "dy", "x": "x", "dx": dx, "dresidual": dresidual}, fields)

    @property
    def slope(self) -> float:
        """What differences of inputs, and rounding errors, are multiplied by at most; at least 1."""
        return float(max(1.0, np.abs(self.inverse * (1 if self.weight is None else self.weight)).max()))

    def in_torch(self) -> torch.nn.BatchNorm2d:
        """The same in float64."""
        has_buffers = self.running_mean is not None
        found = torch.nn.BatchNorm2d(
            self.case.channels, self.epsilon, self.momentum, self.weight is not None, has_buffers
        ).double()
        for name in ("weight", "bias", "running_mean", "running_var"):
            if (array := getattr(self, name)) is not None:
                getattr(found, name).data.copy_(torch.from_numpy(array))
        return found.train(self.training)


def has_variance(case: Case) -> bool:
    return case.items * case.rows * case.columns > 1


@settings(max_examples=60, deadline=None)
@given(case=cases.filter(has_variance), relu=st.booleans(), training=st.booleans(), has_residual=st.booleans())
def test_batch_norm(machine: Machine, case: Case, relu: bool, training: bool, has_residual: bool) -> None:
    draw = case.draw()
    norm = Norm(draw, case, relu, training, momentum=draw.generator.random())
    reference = norm.in_torch()
    x, residual = draw.numbers(*case.shape), draw.numbers(*case.shape)
    maps = {"x": draw.map(x), "residual": draw.map(residual), "y": draw.unwritten(*case.shape)}
    found = run(machine, maps, norm.forward("residual" if has_residual else None), threads=case.threads)
    expected = reference(double(x)) + (double(residual) if has_residual else 0)
    check(found["y"], functional.relu(expected) if relu else expected, norm.slope if training else 1.0)
    if norm.running_mean is not None:
        check(norm.running_mean, reference.running_mean)  # type: ignore[arg-type]
        check(norm.running_var, reference.running_var)  # type: ignore[arg-type]


@settings(max_examples=60, deadline=None)
@given(case=cases.filter(has_variance), has_residual=st.booleans())
def test_gradients_of_batch_norm(machine: Machine, case: Case, has_residual: bool) -> None:
    draw = case.draw()
    norm = Norm(draw, case)
    reference = norm.in_torch()
    x, dy = draw.numbers(*case.shape), draw.numbers(*case.shape)
    maps = {"x": draw.map(x), "y": draw.unwritten(*case.shape), "dy": draw.map(dy, is_gradient=True)}
    more, dx = draw.target("dx", *case.shape)
    maps |= more
    dresidual = Target()
    if has_residual:
        more, dresidual = draw.target("dresidual", *case.shape)
        maps |= more
    found = run(machine, maps, norm.forward(None), norm.backward(dx, dresidual), threads=case.threads)
    reference(inside := double(x, needs_gradient=True)).backward(double(dy))
    assert inside.grad is not None
    check_target(found, maps, dx, inside.grad, norm.slope)
    if has_residual:
        check_target(found, maps, dresidual, dy)
    if norm.weight is not None:
        check(norm.dweight, reference.weight.grad, norm.inverse.max())  # type: ignore[arg-type]
        check(norm.dbias, reference.bias.grad)  # type: ignore[arg-type]


@pytest.mark.parametrize("mean", [0.0, 100.0, -3000.0])
def test_a_large_mean_does_not_cancel(machine: Machine, mean: float) -> None:
    case = Case(items=37, channels=2, rows=20, columns=30, threads=1, seed=1)
    draw = case.draw()
    norm = Norm(draw, case)
    reference = norm.in_torch()
    x, dy = draw.numbers(*case.shape) + np.float32(mean), draw.numbers(*case.shape)
    maps = {
        "x": Map(x), "y": draw.unwritten(*case.shape), "dy": Map(dy, is_gradient=True),
        "dx": Map(np.zeros_like(dy), is_gradient=True),
    }  # fmt: skip
    found = run(machine, maps, norm.forward(None), norm.backward(Target("dx"), Target()))
    inside = double(x, needs_gradient=True)
    expected = reference(inside)
    expected.backward(double(dy))
    # No better than the mean itself can be said in float32.
    rounding = 2e-7 * abs(mean)
    np.testing.assert_allclose(found["y"], expected.detach(), rtol=0, atol=1e-5 + rounding)
    np.testing.assert_allclose(norm.inverse, 1 / x.std((0, 2, 3), dtype=np.float64), rtol=1e-5)
    assert inside.grad is not None
    np.testing.assert_allclose(found["dx"], inside.grad.numpy(), rtol=0, atol=1e-5 + rounding)


def test_a_variance_that_overflows_is_noticed(machine: Machine) -> None:
    case = Case(items=2, channels=3, rows=1, columns=1, threads=1, seed=2)
    norm, loss = Norm(case.draw(), case), np.zeros(1, np.float32)
    x = np.array([1e25, -1e25], np.float32)[:, None, None, None].repeat(3, 1)
    maps = {name: Map(x) for name in ("x", "y", "dx")}
    entropy = Call(
        "cross_entropy", {"x": "y", "dx": "dx"}, {"classes": 3, "labels": 0, "output": 0, "scale": np.ones(1)}
    )
    run(machine, maps, norm.forward(None), entropy, arrays=[np.zeros(2, np.int64)], outputs=[loss])
    assert np.isnan(loss[0])


def test_a_channel_of_equal_numbers_has_no_variance(machine: Machine) -> None:
    case = Case(items=20, channels=1, rows=7, columns=5, threads=1, seed=2)
    norm = Norm(case.draw(), case)
    norm.weight = norm.bias = None
    maps = {"x": Map(np.full(case.shape, 0.1, np.float32)), "y": Map(np.zeros(case.shape, np.float32))}
    found = run(machine, maps, norm.forward(None))
    np.testing.assert_allclose(norm.inverse, 1e-5**-0.5, rtol=1e-6)
    np.testing.assert_allclose(found["y"], 0, atol=1e-5)


def test_the_number_of_threads_changes_no_bit(machine: Machine) -> None:
    results = []
    for threads in (1, 2, 3):
        draw = BIG.draw()
        norm, x = Norm(draw, BIG), draw.numbers(*BIG.shape)
        maps = {
            "x": Map(x), "y": draw.unwritten(*BIG.shape), "dy": Map(x[::-1], is_gradient=True),
            "dx": Map(np.zeros_like(x), is_gradient=True),
        }  # fmt: skip
        found = run(machine, maps, norm.forward(None), norm.backward(Target("dx"), Target()), threads=threads)
        results.append([*found.values(), norm.mean, norm.inverse, norm.dweight, norm.dbias])
    for other in results[1:]:
        for one, another in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(one, another)

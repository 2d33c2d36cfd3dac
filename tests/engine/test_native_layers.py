"""Every kernel with every tile gives what PyTorch gives in float64, whatever the shape, the mask and the batch."""

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

from asni.engine.graph import Array
from asni.engine.program.layouts import MODES, Machine, Mode
from asni.engine.steps import Activation, Steps
from tests.engine.graphs import double, normal
from tests.engine.native_programs import ISAS, every_choice, machine_of, one_step, run, site_of

pytestmark = pytest.mark.skipif(not ISAS, reason="there is no native core")

TOLERANCE = 1e-5
ACTIVATIONS = (None, Activation("relu"), Activation("clip", -0.5, 1.0), Activation("leaky_relu", 0.1))
CHOICES_PER_LAYER = 10


@pytest.fixture(scope="module", params=ISAS)
def machine(request: pytest.FixtureRequest) -> Iterator[Machine]:
    with machine_of(request.param) as found:
        yield found


class Layer:
    """A network of one layer, inputs for it, what must come out, and how large its sums are."""

    def __init__(self, steps: Steps, inputs: list[Array], expected: Array, scale: float) -> None:
        self.steps, self.inputs, self.expected, self.scale = steps, inputs, expected, scale

    def __repr__(self) -> str:
        (step,) = self.steps.steps
        density = np.count_nonzero(step.constants["weight"]) / step.constants["weight"].size
        weight = step.constants["weight"].shape
        return f"{len(self.inputs[0])} items, {self.steps.shapes}, {weight}, {density=}, {step.settings}"


def masked(weight: Array, density: float, seed: int) -> Array:
    """Keep so many of the weights, and none of some output channels."""
    random = np.random.default_rng(seed)
    weight = np.where(random.random(weight.shape) < density, weight, np.float32(0))
    weight[random.random(len(weight)) < 0.2] = 0
    return weight


def activated(x: torch.Tensor, activation: Activation | None) -> torch.Tensor:
    if activation is None:
        return x
    if activation.function == "leaky_relu":
        return functional.leaky_relu(x, activation.low)
    return x.relu() if activation.function == "relu" else x.clamp(activation.low, activation.high)


def layer_of(
    kind: str, given: list[Array], sums: torch.Tensor, activation: Activation | None, **details: object
) -> Layer:
    """A layer with all that comes after its sums: the residual, if a second input is given, and the activation."""
    if len(given) > 1:
        sums = sums + double(given[1])
    shapes = [(1, *each.shape[1:]) for each in given]
    steps = one_step(kind, shapes, (1, *sums.shape[1:]), activation=activation, **details)
    return Layer(steps, given, activated(sums, activation).numpy(), max(1.0, float(sums.abs().max())))


SIZES = st.one_of(st.integers(1, 5), st.integers(1, 20))
CHANNELS = st.one_of(st.integers(1, 5), st.integers(1, 40))
ITEMS = st.one_of(st.integers(1, 5), st.integers(1, 40))
DENSITIES = st.sampled_from([0.0, 0.05, 0.3, 1.0])


@st.composite
def convolutions(draw: st.DrawFn) -> Layer:
    size = (draw(st.one_of(st.just(1), SIZES)), draw(SIZES))
    dilation = (draw(st.integers(1, 2)), draw(st.integers(1, 2)))
    stride = (draw(st.integers(1, 3)), draw(st.integers(1, 3)))
    kernel = draw(st.one_of(st.sampled_from([(1, 1), (3, 3), (1, 3)]), st.tuples(st.integers(1, 5), st.integers(1, 5))))
    if draw(st.booleans()):
        stride = dilation = (1, 1)
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    pads = [[draw(st.integers(0, r)) for r in reach] for _ in range(2)]
    for axis in range(2):
        pads[1][axis] += max(0, reach[axis] - size[axis] - pads[0][axis] - pads[1][axis])
    groups = draw(st.sampled_from([1, 1, 1, 2, 3, 16]))
    inputs, outputs = (groups * draw(st.integers(1, max(1, 40 // groups))) for _ in range(2))
    (top, left), (bottom, right) = pads
    seed, items = draw(st.integers(0, 99)), draw(ITEMS)
    x = normal(items, inputs, *size, seed=seed)
    weight = masked(normal(outputs, inputs // groups, *kernel, seed=seed + 1), draw(DENSITIES), seed)
    bias = normal(outputs, seed=seed + 2)
    padded = functional.pad(double(x), (left, right, top, bottom))
    sums = functional.conv2d(padded, double(weight), double(bias), stride, 0, dilation, groups)
    given = [x] + [normal(*sums.shape, seed=seed + 3)] * draw(st.integers(0, 1))
    return layer_of(
        "conv", given, sums, draw(st.sampled_from(ACTIVATIONS)), weight=weight, bias=bias, stride=stride,
        dilation=dilation, pads=(top, left, bottom, right), groups=groups,
    )  # fmt: skip


@st.composite
def linears(draw: st.DrawFn) -> Layer:
    tokens = draw(st.sampled_from([(), (1,), (draw(st.integers(1, 20)),), (2, draw(st.integers(1, 5)))]))
    inputs, outputs, items, seed = draw(CHANNELS), draw(CHANNELS), draw(ITEMS), draw(st.integers(0, 99))
    x, bias = normal(items, *tokens, inputs, seed=seed), normal(outputs, seed=seed + 2)
    weight = masked(normal(outputs, inputs, seed=seed + 1), draw(DENSITIES), seed)
    sums = functional.linear(double(x), double(weight), double(bias))
    given = [x] + [normal(*sums.shape, seed=seed + 3)] * draw(st.integers(0, 1))
    return layer_of("linear", given, sums, draw(st.sampled_from(ACTIVATIONS)), weight=weight, bias=bias)


def check(layer: Layer, machine: Machine, mode: Mode, threads: int, draw: st.DataObject) -> None:
    items = len(layer.inputs[0])
    groups = -(-items // machine.lanes) if mode == "lanes" else items
    every = every_choice(site_of(layer.steps, mode, machine, groups), machine)
    order = np.random.default_rng(draw.draw(st.integers(0, 99))).permutation(len(every))
    for choice in (None, *(every[index] for index in order[:CHOICES_PER_LAYER])):
        for zeros in (False, True) if choice is None or choice.kernel in ("sparse", "sparse_row") else (False,):
            (result,) = run(layer.steps, layer.inputs, mode, machine, choice, zeros=zeros, threads=threads)
            worst = np.abs(result - layer.expected).max() / layer.scale
            assert worst < TOLERANCE, f"{worst} with {choice} and zeros={zeros}"


@pytest.mark.parametrize("mode", MODES)
@settings(max_examples=60, deadline=None)
@given(layer=convolutions(), threads=st.integers(1, 2), data=st.data())
def test_convolutions(machine: Machine, mode: Mode, layer: Layer, threads: int, data: st.DataObject) -> None:
    check(layer, machine, mode, threads, data)


@pytest.mark.parametrize("mode", MODES)
@settings(max_examples=40, deadline=None)
@given(layer=linears(), threads=st.integers(1, 2), data=st.data())
def test_linear_layers(machine: Machine, mode: Mode, layer: Layer, threads: int, data: st.DataObject) -> None:
    check(layer, machine, mode, threads, data)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("positive", [False, True])
def test_winograd_over_many_channels(machine: Machine, mode: Mode, positive: bool) -> None:
    """Its transforms multiply what rounding loses: over 512 channels up to 7e-6 of the largest output."""
    x, weight, bias = normal(1, 512, 9, 13, seed=1), normal(16, 512, 3, 3, seed=2), normal(16, seed=3)
    x = np.maximum(x, 0) if positive else x
    sums = functional.conv2d(double(x), double(weight), double(bias), padding=1)
    layer = layer_of(
        "conv", [x], sums, None, weight=weight, bias=bias, stride=(1, 1), dilation=(1, 1), pads=(1, 1, 1, 1), groups=1
    )
    for choice in every_choice(site_of(layer.steps, mode, machine, 1), machine):
        if choice.kernel == "winograd":
            (result,) = run(layer.steps, layer.inputs, mode, machine, choice)
            assert np.abs(result - layer.expected).max() < TOLERANCE * layer.scale

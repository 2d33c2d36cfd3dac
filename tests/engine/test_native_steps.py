"""All kinds of steps give in the native core what they give in NumPy, in both layouts and for any batch."""

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

from asni.engine import interpreter
from asni.engine.program.layouts import MODES, Machine, Mode
from asni.engine.program.tuning import batched
from asni.engine.program.types import BINARY, UNARY
from asni.engine.steps import Activation
from tests.engine.graphs import double, normal
from tests.engine.native_programs import ISAS, machine_of, one_step, run
from tests.engine.random_steps import random_steps

pytestmark = pytest.mark.skipif(not ISAS, reason="there is no native core")


@pytest.fixture(scope="module", params=ISAS)
def machine(request: pytest.FixtureRequest) -> Iterator[Machine]:
    with machine_of(request.param) as found:
        yield found


@pytest.mark.parametrize("mode", MODES)
@settings(max_examples=100, deadline=None)
@given(
    random=st.randoms(use_true_random=False),
    count=st.integers(1, 8),
    items=st.one_of(st.integers(1, 4), st.integers(1, 40)),
    threads=st.integers(1, 2),
)
def test_networks_of_random_steps(
    machine: Machine, mode: Mode, random: Random, count: int, items: int, threads: int
) -> None:
    steps = random_steps(random, count)
    items = items if steps.fixed_batch is None else 1
    inputs = [normal(*batched(steps.shapes[name], items), seed=index) for index, name in enumerate(steps.inputs)]
    for result, expected in zip(
        run(steps, inputs, mode, machine, threads=threads), interpreter.run(steps, inputs), strict=True
    ):
        assert result.shape == expected.shape
        np.testing.assert_allclose(result, expected, rtol=0, atol=1e-5 * max(1.0, np.abs(expected).max(initial=0)))


TORCHS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "relu": functional.relu, "gelu": functional.gelu, "silu": functional.silu, "sigmoid": torch.sigmoid,
    "gelu_tanh": lambda x: functional.gelu(x, approximate="tanh"), "tanh": torch.tanh,
    "hard_swish": functional.hardswish, "erf": torch.erf, "exp": torch.exp, "sqrt": lambda x: x.abs().sqrt(),
    "abs": torch.abs, "neg": torch.neg, "clip": lambda x: x.clamp(-1, 2),
    "leaky_relu": lambda x: functional.leaky_relu(x, 0.1), "hard_sigmoid": functional.hardsigmoid,
}  # fmt: skip
NUMBERS = {"clip": (-1.0, 2.0), "leaky_relu": (0.1, 0.0), "hard_sigmoid": (1 / 6, 0.5)}
POINTS = np.concatenate([np.linspace(-88, 88, 999), np.linspace(-5, 5, 999), [-1e-30, -1e-40, 0, 1e-40, 1e-30]])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("function", UNARY)
def test_functions_of_one_number(machine: Machine, mode: Mode, function: Any) -> None:
    x = POINTS.astype(np.float32)[None]
    x = np.abs(x) if function == "sqrt" else x
    network = one_step("unary", [x.shape], x.shape, activation=Activation(function, *NUMBERS.get(function, ())))
    (result,) = run(network, [x], mode, machine)
    np.testing.assert_allclose(result, TORCHS[function](double(x)), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("function", BINARY)
@pytest.mark.parametrize("shapes", [((1, 3, 5, 7), (1, 3, 1, 1)), ((1, 1, 5, 1), (1, 3, 1, 33)), ((1, 40), (1, 40))])
@pytest.mark.parametrize("constant", ["", "a", "b"])
def test_functions_of_two_numbers(
    machine: Machine, mode: Mode, function: str, shapes: tuple[tuple[int, ...], ...], constant: str
) -> None:
    """Both may be constants, and each is repeated along what it does not have."""
    sides = {
        side: np.abs(normal(*shape, seed=index)) + 0.1
        for index, (side, shape) in enumerate(zip("ab", shapes, strict=True))
    }
    shape = np.broadcast_shapes(*shapes)
    given = {side: array for side, array in sides.items() if side != constant}
    constants = {side: array for side, array in sides.items() if side == constant}
    network = one_step("binary", [each.shape for each in given.values()], shape, function=function, **constants)
    (result,) = run(network, list(given.values()), mode, machine)
    expected = interpreter.BINARY[function](*(array.astype(np.float64) for array in sides.values()))
    np.testing.assert_allclose(result, expected, rtol=1e-5)


@pytest.mark.parametrize("mode", MODES)
def test_an_average_over_windows_of_which_2_by_2_places_lie_in_the_map(machine: Machine, mode: Mode) -> None:
    x = np.ones((1, 1, 2, 2), np.float32)
    window = {"kernel": (4, 4), "stride": (2, 2), "dilation": (1, 1), "pads": (1, 1, 1, 1)}
    network = one_step("pool", [x.shape], (1, 1, 1, 1), mode="average", count_include_pad=True, **window)
    assert run(network, [x], mode, machine)[0].item() == 4 / 16


@pytest.mark.parametrize("mode", MODES)
def test_means_of_large_maps(machine: Machine, mode: Mode) -> None:
    """A sum of 40,000 numbers of one sign loses digits if it is taken one by one."""
    x = normal(1, 2, 200, 200) * 0.1 + 3
    for network in (
        one_step("mean", [x.shape], (1, 2, 1, 1), axes=(2, 3)),
        one_step("adaptive_pool", [x.shape], (1, 2, 1, 1), mode="average"),
    ):
        (result,) = run(network, [x], mode, machine)
        np.testing.assert_allclose(result, x.mean((2, 3), np.float64, keepdims=True), rtol=1e-5)


@pytest.mark.parametrize("mode", MODES)
def test_lanes_without_an_item_are_not_taken_for_infinite(machine: Machine, mode: Mode) -> None:
    x = normal(3, 4) + 9
    for function in ("div", "pow"):
        network = one_step("binary", [x[:1].shape] * 2, (1, 4), function=function)
        (result,) = run(network, [x, -x], mode, machine)
        np.testing.assert_allclose(result, interpreter.BINARY[function](x, -x), rtol=1e-5)

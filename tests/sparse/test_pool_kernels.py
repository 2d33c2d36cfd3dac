"""The gradients of pools in the native core are those of PyTorch in float64."""

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

from asni.engine.graph import Array
from asni.engine.program.layouts import Machine
from tests.engine.native_programs import ISAS
from tests.sparse.drawn_maps import Case, cases, check_target, double
from tests.sparse.kernel_calls import Call, Map, Target, run

pytestmark = pytest.mark.skipif(not ISAS, reason="there is no native core")


@dataclass(frozen=True)
class Windows:
    """Kernel, stride, padding and dilation of a pool along one side of a map."""

    length: int
    kernel: int
    stride: int
    pad: int
    dilation: int

    @property
    def starts(self) -> Array:
        return np.arange(0, self.length + 2 * self.pad - self.dilation * (self.kernel - 1), self.stride) - self.pad

    def inside(self) -> list[list[int]]:
        """The places of each window that lie in the map."""
        places = self.starts[:, None] + self.dilation * np.arange(self.kernel)
        return [[int(at) for at in row if 0 <= at < self.length] for row in places]

    def table(self) -> Array:
        """First and end of each window."""
        return np.array([(places[0], places[-1] + 1) for places in self.inside()], np.int32)


@st.composite
def windows(draw: st.DrawFn) -> Windows:
    kernel, dilation = draw(st.integers(1, 5)), draw(st.sampled_from([1, 1, 2]))
    pad, span = draw(st.integers(0, kernel // 2)), dilation * (kernel - 1) + 1
    # Every window sees a place of the map.
    length = draw(st.integers(max(span, pad + 1), 12))
    return Windows(length, kernel, draw(st.integers(1, 3)), pad, dilation)


def pool_call(down: Windows, right: Windows, channels: int, dx: Target, scale: Array | None, *, pairs: bool) -> Call:
    fields = {
        "channels": channels, "rows": len(down.starts), "columns": len(right.starts), "height": down.length,
        "width": right.length, "average": int(scale is not None), "row_window": down.table(),
        "column_window": right.table(), "row_step": down.dilation, "column_step": right.dilation, "scale": scale,
        "pairs": int(pairs),
    }  # fmt: skip
    return Call("pool_backward", {"x": "x", "y": "y", "dy": "dy", "dx": dx}, fields)


def check_pool(
    machine: Machine, case: Case, down: Windows, right: Windows, *, average: bool, pairs: bool, with_pad: bool = False
) -> None:
    draw = case.draw()
    x = draw.small_integers(case.items, case.channels, down.length, right.length)
    settings: dict[str, Any] = {"stride": (down.stride, right.stride), "padding": (down.pad, right.pad)}
    inside, kernel, scale = double(x, needs_gradient=True), (down.kernel, right.kernel), None
    if average:
        y = functional.avg_pool2d(inside, kernel, **settings, count_include_pad=with_pad)
        counts = [
            kernel[0] * kernel[1] if with_pad else len(one) * len(other)
            for one, other in product(down.inside(), right.inside())
        ]
        scale = (1 / np.array(counts)).astype(np.float32)
    else:
        y = functional.max_pool2d(inside, kernel, **settings, dilation=(down.dilation, right.dilation))
    dy = draw.numbers(*y.shape)
    y.backward(double(dy))
    more, dx = draw.target("dx", *x.shape)
    pooled = y.detach().numpy().astype(np.float32)
    maps = {"x": draw.map(x), "y": draw.map(pooled), "dy": draw.map(dy, is_gradient=True), **more}
    call = pool_call(down, right, case.channels, dx, scale, pairs=pairs)
    assert inside.grad is not None
    check_target(run(machine, maps, call, threads=case.threads), maps, dx, inside.grad)


@settings(max_examples=60, deadline=None)
@given(case=cases, down=windows(), right=windows())
def test_gradient_of_a_maximum(machine: Machine, case: Case, down: Windows, right: Windows) -> None:
    check_pool(machine, case, down, right, average=False, pairs=False)


@settings(max_examples=60, deadline=None)
@given(case=cases, down=windows(), right=windows(), with_pad=st.booleans())
def test_gradient_of_an_average(machine: Machine, case: Case, down: Windows, right: Windows, with_pad: bool) -> None:
    plain = [Windows(max(each.length, each.kernel), each.kernel, each.stride, each.pad, 1) for each in (down, right)]
    check_pool(machine, case, *plain, average=True, pairs=False, with_pad=with_pad)


@settings(max_examples=40, deadline=None)
@given(case=cases, average=st.booleans())
def test_gradients_of_pairs(machine: Machine, case: Case, average: bool) -> None:
    down, right = (Windows(2 * length, 2, 2, 0, 1) for length in (case.rows, case.columns))
    check_pool(machine, case, down, right, average=average, pairs=True)


@pytest.mark.parametrize("pairs", [True, False])
def test_a_maximum_of_nan_passes_its_gradient_to_it(machine: Machine, pairs: bool) -> None:
    x = np.array([0, np.nan, 2, 3], np.float32).reshape(1, 1, 2, 2)
    maps = {
        "x": Map(x), "y": Map(np.full((1, 1, 1, 1), np.nan, np.float32)), "dx": Map(np.zeros_like(x), is_gradient=True),
        "dy": Map(np.full((1, 1, 1, 1), 5, np.float32), is_gradient=True),
    }  # fmt: skip
    side = Windows(2, 2, 2, 0, 1)
    found = run(machine, maps, pool_call(side, side, 1, Target("dx"), None, pairs=pairs))
    assert found["dx"].ravel().tolist() == [0, 5, 0, 0]

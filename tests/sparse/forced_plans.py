"""Plans of layers that are drawn from all that the kernels can run, whatever would be chosen."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from random import Random
from unittest.mock import patch

from asni.engine.program.choices import Choice, Site
from asni.engine.program.geometry import Window
from asni.engine.program.layouts import Layout, Machine
from asni.engine.program.types import tiles
from asni.sparse.network import network
from asni.sparse.network.choices import Plan
from tests.engine.native_programs import every_choice


@contextmanager
def any_plan(random: Random) -> Iterator[None]:
    """Networks that are made meanwhile have random plans."""

    def of_convolution(
        window: Window, density: float, x: Layout, y: Layout, machine: Machine, groups: int, *, needs_inputs: bool
    ) -> Plan:
        plan = _plan(random, window, density, x, y, machine, groups, needs_inputs=needs_inputs)
        if not _is_for_winograd(window):
            return plan
        turned = Window((3, 3), (1, 1), (1, 1), 2 - window.top, 2 - window.left, 1, True)
        inputs = [
            each
            for each in every_choice(Site(y, x, turned, density, "lanes", groups), machine)
            if each.kernel == "winograd"
        ]
        by_winograd = random.choice([None, random.choice(inputs)]) if needs_inputs else None
        weights = Choice("winograd", (), random.choice([1, 2, 3, 16]))
        is_possible = by_winograd is not None or not needs_inputs
        return replace(plan, inputs=by_winograd, weights=random.choice([None, weights]) if is_possible else None)

    def of_linear(
        window: Window, density: float, x: Layout, y: Layout, machine: Machine, groups: int, *, needs_inputs: bool
    ) -> Plan:
        return _plan(random, window, density, x, y, machine, groups, linear=True, needs_inputs=needs_inputs)

    with (
        patch.object(network, "plan_of_convolution", of_convolution),
        patch.object(network, "plan_of_linear", of_linear),
    ):
        yield


def _plan(
    random: Random,
    window: Window,
    density: float,
    x: Layout,
    y: Layout,
    machine: Machine,
    groups: int,
    *,
    needs_inputs: bool,
    linear: bool = False,
) -> Plan:
    forward = random.choice(every_choice(Site(x, y, window, density, "lanes", groups), machine))
    channels = x.shape[1] * (x.shape[2] * x.shape[3] if linear else 1)
    known = [each for each in tiles("sparse_backward") if each[4] or not needs_inputs]
    tile = random.choice([each[1:4] for each in known if not linear or each[2:4] == (1, 1)])
    blocks = random.choice([1, 1, random.randint(1, y.shape[1])])
    chunk = random.randint(1, channels)
    return Plan(forward, tile, blocks, chunk, random.randint(1, 5))


def _is_for_winograd(window: Window) -> bool:
    return (window.kernel, window.stride, window.dilation, window.groups) == ((3, 3), (1, 1), (1, 1), 1)

"""Call kernels of a training on maps, in memory that shows mistakes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from asni.engine.graph import Array
from asni.engine.program.calls import Draft
from asni.engine.program.layouts import NO_HALO, Halo, Layout, Machine, layout_of
from asni.engine.steps import Steps
from tests.engine.native_programs import apart_in_memory
from tests.engine.sanitized import gaps_forbidden


@dataclass(frozen=True)
class Map:
    """A map before a kernel runs, (items, channels, height, width); NaN is what was never written.

    Lanes beyond the last item repeat it, or are zeros if this is a gradient, which they must stay.
    """

    values: Array
    halo: Halo = NO_HALO
    is_gradient: bool = False


@dataclass(frozen=True)
class Target:
    """A gradient to write, by the names of its maps; without d, there is none."""

    d: str | None = None
    accumulate: bool = False
    mask: str | None = None


@dataclass(frozen=True)
class Call:
    """A kernel, the names of the maps that are its operands (None: it has none), and its other fields."""

    kernel: str
    operands: Mapping[str, str | Target | None]
    fields: Mapping[str, Any]


def run(
    machine: Machine,
    maps: Mapping[str, Map],
    *calls: Call,
    threads: int = 1,
    arrays: Sequence[Array] = (),
    outputs: Sequence[Array] = (),
) -> dict[str, Array]:
    """All maps after the calls; `arrays` and `outputs` are those of the user.

    Maps lie apart, with NaN between them. Nothing may be written there, or to their halos, which are zeros.
    """
    items = len(next(iter(maps.values())).values)
    groups = -(-items // machine.lanes)
    draft = Draft("lanes", machine)
    for name, each in maps.items():
        channels, height, width = each.values.shape[1:]
        draft.layouts[name] = layout_of((1, channels, height, width), "lanes", machine, each.halo)
    for call in calls:
        draft.call(call.kernel, 0, next(iter(maps)), tuple(maps), **_fields(draft, call))
    names = [f"array {index}" for index in range(len(arrays) + len(outputs))]
    steps = Steps(tuple(names[: len(arrays)]), tuple(names[len(arrays) :]), (), {})
    apart = apart_in_memory(draft, steps, groups, threads)
    arena = apart.memory._arena.reshape(groups, -1)
    views = {name: _view(arena[:, apart.begins[name] :], draft.layouts[name]) for name in maps}
    wholes = {name: arena[:, begin : begin + draft.layouts[name].floats] for name, begin in apart.begins.items()}
    for name, each in maps.items():
        wholes[name][:] = 0
        views[name][:] = _in_lanes(each, groups, machine.lanes)
    with gaps_forbidden(apart):
        apart.memory.run(arrays, outputs, items)
    assert np.isnan(apart.gaps()).all(), "something was written outside of all values"
    found = {}
    for name, each in maps.items():
        lanes = views[name].copy()
        views[name][:] = 0
        assert not wholes[name].any(), f"the halo of {name} was written to"
        every = np.moveaxis(lanes, -1, 1).reshape(-1, *lanes.shape[1:-1])
        assert not (each.is_gradient and every[items:].any()), f"lanes beyond the last item have gradients in {name}"
        found[name] = every[:items]
    return found


def _view(group: Array, layout: Layout) -> Array:
    """A map without its halo: (groups, channels, height, width, lanes)."""
    shape = (len(group), *layout.shape[1:], layout.element)
    strides = (group.strides[0], *(4 * stride for stride in layout.strides[1:]), 4)
    return as_strided(group[:, layout.first :], shape, strides)


def _in_lanes(each: Map, groups: int, lanes: int) -> Array:
    missing = groups * lanes - len(each.values)
    last = each.values[-1:] * (0 if each.is_gradient else 1)
    every = np.concatenate([each.values, *[last] * missing]).astype(np.float32)
    return np.moveaxis(every.reshape(groups, lanes, *every.shape[1:]), 1, -1)


def _fields(draft: Draft, call: Call) -> dict[str, Any]:
    fields = dict(call.fields)
    for field, operand in call.operands.items():
        if isinstance(operand, Target):
            fields |= _map_fields(draft, field, operand.d)
            fields[f"{field}_accumulate"] = int(operand.accumulate)
            fields |= _map_fields(draft, f"{field}_mask", operand.mask)
        else:
            fields |= _map_fields(draft, field, operand)
    return fields


def _map_fields(draft: Draft, field: str, name: str | None) -> dict[str, Any]:
    if name is None:
        return {field: -1}
    layout = draft.layouts[name]
    return {field: draft.place(name), f"{field}_channel": layout.channel, f"{field}_row": layout.row}

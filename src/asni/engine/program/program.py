"""A program that the native core runs: calls with their memory laid out, for any number of items."""

import ctypes
from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from asni.engine.graph import Array
from asni.engine.program.arena import Lifetime, place
from asni.engine.program.calls import Call, Draft, Place
from asni.engine.program.team import Team
from asni.engine.program.types import KERNELS, PARAMETERS, Operation, Run, address, core
from asni.engine.steps import Steps

_CACHE_LINE = 64
_PAGE = 1024
"""In floats. Groups whose distance is a multiple of a page compete for the same lines of the first cache."""


class Program:
    """Calls of kernels and the memory that each group of items needs."""

    def __init__(self, draft: Draft, steps: Steps) -> None:
        self.inputs, self.outputs = steps.inputs, steps.outputs
        self.group_items = draft.element
        self.steps = [call.step for call in draft.calls]
        margin = -(-draft.margin // 16) * 16
        offsets, floats = place(_lifetimes(draft))
        offsets = {name: offset + margin for name, offset in offsets.items()}
        self.group_floats = -(-(floats + 2 * margin) // _PAGE) * _PAGE + _CACHE_LINE // 4
        self.parameters = [_parameters(call, offsets) for call in draft.calls]
        self._arrays = [
            value for call in draft.calls for value in call.fields.values() if isinstance(value, np.ndarray)
        ]
        self.operations = (Operation * len(draft.calls))(
            *(
                Operation(KERNELS.index(call.kernel), ctypes.addressof(parameters))
                for call, parameters in zip(draft.calls, self.parameters, strict=True)
            )
        )
        scratch = [core().asni_scratch(each.kernel, each.parameters) for each in self.operations]
        self.scratch_floats = -(-max(scratch, default=0) // 16) * 16

    @property
    def weight_bytes(self) -> int:
        """What the tables of weights take."""
        return sum(array.nbytes for array in self._arrays)

    def groups(self, items: int) -> int:
        """How many groups so many items fill."""
        return -(-items // self.group_items)


class Memory:
    """The memory and the threads of one call of a program at a time; so many groups of items have room at once."""

    def __init__(self, program: Program, groups: int, threads: int, *, subnormals_are_zero: bool = False) -> None:
        self.program, self.groups = program, groups
        self._arena = _zeros(groups * program.group_floats)
        self._scratch = _zeros(threads * program.scratch_floats)
        self._nonfinite = ctypes.c_int64()
        self._inputs = (ctypes.c_void_p * len(program.inputs))()
        self._outputs = (ctypes.c_void_p * len(program.outputs))()
        self._run = Run(
            arena=address(self._arena),
            group_stride=program.group_floats,
            groups=groups,
            group_items=program.group_items,
            inputs=ctypes.addressof(self._inputs),
            outputs=ctypes.addressof(self._outputs),
            scratch=address(self._scratch),
            scratch_stride=program.scratch_floats,
            nonfinite=ctypes.addressof(self._nonfinite),
            subnormals_are_zero=subnormals_are_zero,
        )
        # Plain numbers are converted faster than pointers, which a small network would notice.
        self._arguments = (ctypes.addressof(program.operations), len(program.operations), ctypes.addressof(self._run))
        self._team = Team(threads)
        self._execute = partial(self._team.run, *self._arguments)

    def run(self, inputs: Sequence[Array], outputs: Sequence[Array], items: int) -> bool:
        """Fill the outputs; False if a result or an input is NaN or infinite, so that zeros would have counted."""
        self._set(inputs, outputs, items)
        self._execute()
        return not self._nonfinite.value

    def run_some(self, operations: Any, inputs: Sequence[Array], outputs: Sequence[Array], items: int) -> bool:
        """Run these operations of the program, in this order; otherwise as `run`."""
        self._set(inputs, outputs, items)
        self._team.run(ctypes.addressof(operations), len(operations), self._arguments[2])
        return not self._nonfinite.value

    def time(self, inputs: Sequence[Array], outputs: Sequence[Array], items: int, seconds: Array) -> None:
        """Run once on this thread, and lower seconds[i] to what operation i took in its shortest turn."""
        self._set(inputs, outputs, items)
        core().asni_time(*self._arguments, address(seconds))

    def _set(self, inputs: Sequence[Array], outputs: Sequence[Array], items: int) -> None:
        self._nonfinite.value = 0
        self._run.items = items
        for index, array in enumerate(inputs):
            self._inputs[index] = address(array)
        for index, array in enumerate(outputs):
            self._outputs[index] = address(array)


class Pool:
    """Memories that calls borrow, so that several threads may call one engine."""

    def __init__(self, program: Program, groups: int, threads: int) -> None:
        self.program, self.groups, self.threads = program, groups, threads
        # Appending and popping are atomic.
        self._free: deque[Memory] = deque()

    def run(self, inputs: Sequence[Array], outputs: Sequence[Array], items: int) -> bool:
        """Run a batch; what is not finite leaves its memory in an unknown state, so that it is dropped."""
        groups = min(self.groups, self.program.groups(items))
        try:
            memory = self._free.pop()
        except IndexError:
            memory = None
        if memory is None or memory.groups < groups:
            memory = Memory(self.program, groups, self.threads)
        finite = memory.run(inputs, outputs, items)
        if finite:
            self._free.append(memory)
        return finite


def _lifetimes(draft: Draft) -> list[Lifetime]:
    spans: dict[str, tuple[int, int]] = {}
    for index, call in enumerate(draft.calls):
        for name in (*call.reads, call.writes):
            if name in draft.layouts:
                spans[name] = (spans.get(name, (index, index))[0], index)
    slack = draft.machine.lanes
    return [
        Lifetime(name, draft.layouts[name].floats + slack, begin, end, draft.geometry(name))
        for name, (begin, end) in spans.items()
    ]


def _parameters(call: Call, offsets: dict[str, int]) -> ctypes.Structure:
    structure = PARAMETERS[call.kernel]
    kinds = dict(structure._fields_)  # type: ignore[arg-type]
    parameters = structure()
    for name, value in call.fields.items():
        if isinstance(value, Place):
            value = offsets[value.value] + value.more
        elif isinstance(value, list):
            value = kinds[name](*value)
        elif value is None or isinstance(value, np.ndarray):
            value = address(value)
        setattr(parameters, name, value)
    return parameters


def _zeros(floats: int) -> Array:
    """Zeros that start at a cache line."""
    raw = np.zeros(floats + _CACHE_LINE // 4, np.float32)
    skip = -raw.ctypes.data % _CACHE_LINE // 4
    return raw[skip : skip + floats]

"""The optimiser of torch on the nonzeros: the same steps by the native core, on one vector."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.optim import Optimizer

from asni.engine.graph import Array
from asni.engine.program.team import Team
from asni.engine.program.types import PARAMETERS, address
from asni.sparse.network.vector import Vector, memory_of
from asni.sparse.optimizers.operations import operations_of, run
from asni.sparse.optimizers.torch_optimizers import (
    SETTINGS,
    Progress,
    fill,
    keep_progress,
    kind_of,
    progress_of,
    require_known,
)
from asni.sparse.steps import UnsupportedError

NUMBERS_PER_THREAD = 2**15
"""Below this, waking another thread takes longer than its work."""


class WithVector(Protocol):
    """A `Network`, as far as an optimiser needs it."""

    @property
    def vector(self) -> Vector: ...


@dataclass
class _Part:
    """Neighbours in the vector that are stepped as one: parameters of the same group, with the same past."""

    begin: int
    end: int
    group: int
    progress: Progress
    names: list[str]
    settings: Array = field(default_factory=lambda: np.zeros(SETTINGS))


class Nonzeros:
    """Takes the steps that `optimizer` would take, on the vector of a network.

    The learning rate and the other settings are read from the optimiser in each step. `load` takes its state from
    where torch keeps it, and `store` brings it back; between them it is here.
    """

    def __init__(self, network: WithVector, optimizer: Optimizer) -> None:
        require_known(optimizer)
        self.vector: Vector = network.vector
        self.optimizer = optimizer
        _require_in_network(optimizer, self.vector.parameters)
        rows, count = self.vector.gradient.shape
        self._team = Team(min(rows, 1 + count // NUMBERS_PER_THREAD))
        self._first, self._second = np.zeros(count, np.float32), np.zeros(count, np.float32)
        self.load()

    def step(self) -> None:
        """Step all numbers, with the sum of the gradient's rows."""
        self.advance()
        run(self.operations, self._team)

    def advance(self) -> None:
        """Prepare `operations` for the next step; whoever calls this runs them once."""
        for part in self._parts:
            group = self.optimizer.param_groups[part.group]
            fill(part.settings, group, part.progress)
            part.progress.advance(group)

    @torch.no_grad()
    def load(self) -> None:
        """Take the state from the optimiser."""
        self._first.fill(0)
        self._second.fill(0)
        for name, numbers, state in self._states():
            numbers.copy_(_taken(state, self.vector.parameters[name], self.vector.slices[name].index))
        self._parts = list(self._joined())
        self._parameters = [self._parameters_of(part) for part in self._parts]
        self.operations = operations_of("optimise", self._parameters)

    @torch.no_grad()
    def store(self) -> None:
        """Bring the state to the optimiser, with zeros for the pruned weights."""
        for part in self._parts:
            group = self.optimizer.param_groups[part.group]
            for name in part.names:
                keep_progress(self.optimizer, self.vector.parameters[name], group, part.progress)
        for name, numbers, state in self._states():
            _give(state, self.vector.parameters[name], self.vector.slices[name].index, numbers)

    def _states(self) -> Iterator[tuple[str, Tensor, Tensor]]:
        """Every tensor of the optimiser's state: the name of its parameter, its numbers here, and itself."""
        places = (("momentum_buffer", self._first), ("exp_avg", self._first), ("exp_avg_sq", self._second))
        for name, parameter in self.vector.parameters.items():
            where, state = self.vector.slices[name], self.optimizer.state.get(parameter, {})
            for key, numbers in places:
                if state.get(key) is not None:
                    yield name, torch.from_numpy(numbers[where.start : where.stop]), state[key]

    def _joined(self) -> Iterator[_Part]:
        """The trained slices in their order, neighbours joined: what lies between them is zero, and stays so."""
        groups = _groups(self.optimizer)
        part = None
        for name, where in self.vector.slices.items():
            parameter = self.vector.parameters[name]
            trained = parameter.requires_grad and id(parameter) in groups
            past = (groups[id(parameter)], progress_of(self.optimizer, parameter)) if trained else None
            if part is not None and past == (part.group, part.progress):
                part.end = where.stop
                part.names.append(name)
                continue
            if part is not None:
                yield part
            part = None if past is None else _Part(where.start, where.stop, *past, [name])
        if part is not None:
            yield part

    def _parameters_of(self, part: _Part) -> Any:
        rows, stride = self.vector.gradient.shape
        return PARAMETERS["optimise"](
            begin=part.begin,
            count=part.end - part.begin,
            weights=address(self.vector.weights),
            gradient=address(self.vector.gradient),
            rows=rows,
            row_stride=stride,
            first=address(self._first),
            second=address(self._second),
            kind=kind_of(self.optimizer, self.optimizer.param_groups[part.group]),
            settings=address(part.settings),
        )


def _groups(optimizer: Optimizer) -> dict[int, int]:
    """The number of each parameter's group."""
    groups = enumerate(optimizer.param_groups)
    return {id(parameter): number for number, group in groups for parameter in group["params"]}


def _require_in_network(optimizer: Optimizer, known: Mapping[str, Tensor]) -> None:
    """Refuse an optimiser that also trains what the network does not have."""
    own = {id(parameter) for parameter in known.values()}
    for group in optimizer.param_groups:
        names = group.get("param_names", [""] * len(group["params"]))
        for name, parameter in zip(names, group["params"], strict=True):
            # Without a gradient torch leaves it alone: the network does not use it.
            if id(parameter) not in own and parameter.requires_grad and parameter.grad is not None:
                what = f"'{name}'" if name else f"a parameter of shape {tuple(parameter.shape)}"
                raise UnsupportedError(f"the optimiser also trains {what}, which is not in the network")


def _taken(state: Tensor, parameter: Tensor, index: Array | None) -> Tensor:
    """The numbers of a state, whose memory format may be another than the parameter's."""
    laid = state if state.stride() == parameter.stride() else torch.empty_like(parameter).copy_(state)
    memory = memory_of(laid)
    return memory if index is None else memory[torch.from_numpy(index)]


def _give(state: Tensor, parameter: Tensor, index: Array | None, numbers: Tensor) -> None:
    laid = state if state.stride() == parameter.stride() else torch.empty_like(parameter)
    memory = memory_of(laid)
    if index is None:
        memory.copy_(numbers)
    else:
        memory.zero_()[torch.from_numpy(index)] = numbers
    if laid is not state:
        state.copy_(laid)

"""All trained numbers of a network in one vector: the nonzeros of its layers, biases, weights of batch norm."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from asni.engine.graph import Array
from asni.sparse.steps import UnsupportedError


@dataclass(frozen=True)
class Slice:
    """Where the numbers of a parameter are in the vector, and where they lie in the parameter's memory.

    `index` counts elements from the parameter's first one in memory, so that any memory format works; None: all
    elements, in the order of the memory.
    """

    start: int
    stop: int
    index: Array | None


class Vector:
    """The trained numbers of a model, and their gradients: a row for every thread, to be added up."""

    def __init__(self, model: nn.Module, orders: Mapping[str, Array | None], threads: int) -> None:
        """`orders` says which elements of each parameter are trained, as flat positions in its shape."""
        known = dict(model.named_parameters(remove_duplicate=False))
        self.parameters = {name: known[name] for name in orders}
        self.slices: dict[str, Slice] = {}
        count = 0
        for name, order in orders.items():
            parameter = self.parameters[name]
            stop = count + (parameter.numel() if order is None else len(order))
            index = None if order is None else in_memory(parameter, order)
            self.slices[name] = Slice(count, stop, index)
            # Every slice starts at a cache line, so that no two threads write to the same one.
            count = -(-stop // 16) * 16
        self.weights: Array = np.zeros(count, np.float32)
        self.gradient: Array = np.zeros((threads, count), np.float32)
        self._indices = {
            name: None if each.index is None else torch.from_numpy(each.index) for name, each in self.slices.items()
        }

    def of(self, name: str) -> Array:
        """The numbers of a parameter, as a view."""
        return self.weights[self.slices[name].start : self.slices[name].stop]

    def gradient_of(self, name: str) -> Array:
        """The first row of a parameter's gradients, as a view."""
        found: Array = self.gradient[0, self.slices[name].start : self.slices[name].stop]
        return found

    @torch.no_grad()
    def load(self) -> None:
        """Take the numbers from the parameters."""
        for name, parameter in self.parameters.items():
            memory, index = memory_of(parameter), self._indices[name]
            torch.from_numpy(self.of(name)).copy_(memory if index is None else memory[index])

    @torch.no_grad()
    def store(self) -> None:
        """Give the numbers to the parameters, whose other elements stay as they are."""
        for name, parameter in self.parameters.items():
            memory, index = memory_of(parameter), self._indices[name]
            values = torch.from_numpy(self.of(name))
            if index is None:
                memory.copy_(values)
            else:
                memory[index] = values


def memory_of(parameter: Tensor) -> Tensor:
    """The elements of a tensor in the order in which they lie in memory, without gaps."""
    return torch.as_strided(parameter.detach(), (parameter.numel(),), (1,))


def in_memory(parameter: Tensor, order: Array) -> Array:
    """Flat positions in a tensor's shape, as places in its memory."""
    places = np.unravel_index(order, parameter.shape)
    found: Array = sum((at * step for at, step in zip(places, parameter.stride(), strict=True)), np.zeros_like(order))
    return found


def require_dense_memory(name: str, parameter: Tensor) -> None:
    """Refuse a parameter whose elements do not lie side by side on the CPU, or are not float32."""
    covered = 1 + sum((size - 1) * step for size, step in zip(parameter.shape, parameter.stride(), strict=True))
    if parameter.dtype != torch.float32 or parameter.device.type != "cpu":
        raise UnsupportedError(f"{name} is {parameter.dtype} on {parameter.device}; the kernels need float32 on a CPU")
    if covered != parameter.numel():
        raise UnsupportedError(f"the elements of {name} do not lie side by side in memory")

"""The gradients of the nonzeros in the form that autograd hands on: a dense tensor for every parameter."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from asni.engine.graph import Array
from asni.sparse.network.vector import Slice, Vector, memory_of


class DenseGradients:
    """Fills tensors with the gradients of a vector; pruned weights have a gradient of zero.

    Memory is used again as soon as nobody else holds it.
    """

    def __init__(self, vector: Vector) -> None:
        self.vector = vector
        self._buffers: dict[Tensor, _Buffer] = {}

    def filled(self, name: str, numbers: Array) -> Tensor:
        """The gradient of a parameter, out of the sums of all gradients."""
        parameter, where = self.vector.parameters[name], self.vector.slices[name]
        buffer = self._buffers.get(parameter)
        if buffer is None or not buffer.is_free or buffer.tensor.stride() != parameter.stride():
            buffer = self._buffers[parameter] = _Buffer.like(parameter)
        return buffer.filled(where, numbers)


@dataclass
class _Buffer:
    """A tensor, and who uses its memory."""

    tensor: Tensor
    memory: Array
    storage: Any
    start: int
    own_uses: int = 0

    @classmethod
    def like(cls, parameter: Tensor) -> "_Buffer":
        tensor = torch.zeros_like(parameter, requires_grad=False)
        buffer = cls(tensor, memory_of(tensor).numpy(), tensor.untyped_storage(), tensor.data_ptr())
        buffer.own_uses = buffer._uses()
        return buffer

    @property
    def is_free(self) -> bool:
        # Whoever shared it with other processes has moved it, and may have kept it.
        return self._uses() == self.own_uses and self.tensor.data_ptr() == self.start

    def _uses(self) -> int:
        return int(torch._C._storage_Use_Count(self.storage._cdata))

    def filled(self, where: Slice, numbers: Array) -> Tensor:
        values = numbers[where.start : where.stop]
        if where.index is None:
            self.memory[:] = values
        else:
            # Whoever had it may have written to it, also where nothing tells.
            self.memory.fill(0)
            self.memory[where.index] = values
        # Another tensor on the same memory: autograd makes it the parameter's gradient as it is, without a copy.
        return self.tensor.detach()

"""Forward passes on the nonzeros as one node of autograd, with the parameters as its inputs.

So hooks on gradients, their accumulation, `torch.autograd.grad` and DistributedDataParallel work as they do with the
model's own forward.
"""

import weakref
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from asni.sparse.loop.dense_gradients import DenseGradients
from asni.sparse.network.network import Network
from asni.sparse.network.vector import memory_of


class Passes:
    """Runs a network, which has room for the values of one forward pass until its backward pass."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.gradients = DenseGradients(network.vector)
        self.parameters = list(network.vector.parameters.values())
        self._memory = {name: memory_of(each).numpy() for name, each in network.vector.parameters.items()}
        self._last: weakref.ref[_Pass] | None = None

    @property
    def is_free(self) -> bool:
        """Whether no backward pass can follow that needs the values of the last forward pass."""
        last = None if self._last is None else self._last()
        return last is None or last.is_over

    def load(self) -> None:
        """Take the present values of the parameters, whose memory is where it was."""
        vector = self.network.vector
        for name, memory in self._memory.items():
            index = vector.slices[name].index
            if index is None:
                vector.of(name)[:] = memory
            else:
                # Without the mode, NumPy copies the results once more.
                np.take(memory, index, out=vector.of(name), mode="clip")

    def run(self, images: Tensor) -> Tensor:
        """The logits of a batch in training mode, with the present values of the parameters."""
        this = _Pass()
        self._last = weakref.ref(this)
        logits: Tensor = _OnNonzeros.apply(self, this, images, *self.parameters)  # type: ignore[no-untyped-call]
        return logits


class _Pass:
    """A forward pass, as long as autograd knows it."""

    def __init__(self) -> None:
        self.has_gradients = self.is_over = False


class _OnNonzeros(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, passes: Passes, this: _Pass, images: Tensor, *parameters: Tensor) -> Tensor:
        context.passes, context.this = passes, this
        # Autograd refuses a backward pass after the weights have changed, as it does for the model's own forward.
        context.save_for_backward(images, *(each for each in parameters if each.ndim > 1))
        passes.load()
        return torch.from_numpy(passes.network.forward(images.contiguous().numpy(), training=True))

    @staticmethod
    @once_differentiable
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        passes, this, (images, *_) = context.passes, context.this, context.saved_tensors
        network = passes.network
        if this.has_gradients:
            # The first backward pass has used the memory of the values for gradients.
            network.repeat(images.contiguous().numpy())
        network.backward(gradient.detach().contiguous().numpy())
        this.has_gradients = True
        this.is_over = not torch._C._autograd._get_current_graph_task_keep_graph()
        rows = network.gradient
        numbers = rows[0] if len(rows) == 1 else rows.sum(0)
        needed = zip(network.vector.parameters, context.needs_input_grad[3:], strict=True)
        found = [passes.gradients.filled(name, numbers) if is_needed else None for name, is_needed in needed]
        return (None, None, None, *found)

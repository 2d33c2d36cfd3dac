"""Holding pruned weights at zero against the optimiser; every method that prunes during training builds on it."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from asni.errors import AsniError
from asni.masks import Masks, nonzero_masks, require_same_on_every_rank
from asni.pruner import Pruner

# These leave a weight and its state at zero where its gradient and its state are zero.
ZERO_GRADIENT_HOLDS = (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW)


class Hold(Pruner):
    """Holds pruned weights and their optimiser state at exactly zero, through hooks on the optimiser alone.

    The model is not touched: same class, same state_dict, deepcopy works. Without `masks`, the zeros of the
    model's convolution and linear weights are held.

    >>> model = nn.Linear(2, 1, bias=False)
    >>> _ = model.weight.data.copy_(torch.tensor([[1.0, 0.0]]))
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> hold = Hold(model, optimizer)
    >>> model(torch.ones(1, 2)).sum().backward(); optimizer.step()
    >>> model.weight.data
    tensor([[0.9000, 0.0000]])
    """

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer, masks: Mapping[str, Tensor] | None = None):
        super().__init__(model, optimizer)
        self._bits: dict[str, Tensor] = {}
        self.masks = nonzero_masks(model) if masks is None else dict(masks)

    @property
    def masks(self) -> Masks:
        """Which weights live; assigning masks zeroes the pruned weights and their optimiser state at once."""
        return {name: bits != 0 for name, bits in self._bits.items()}

    @masks.setter
    def masks(self, masks: Masks) -> None:
        shapes = {name: mask.shape for name, mask in masks.items()}
        wanted = {name: weight.shape for name, weight in self.weights.items()}
        if shapes != wanted:
            raise AsniError(f"these masks are of another network: {_first_difference(shapes, wanted)}.")
        require_same_on_every_rank(masks)
        widths = mask_bytes(self.weights)
        self._bits = {name: _as_bits(masks[name], weight, widths[name]) for name, weight in self.weights.items()}
        self._zero_weights_and_state()

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "masks": self.masks}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        self.masks = state["masks"]

    def before_step(self) -> None:
        for name, bits in self._bits.items():
            gradient = self.weights[name].grad
            if gradient is not None:
                _zero_pruned(gradient, bits)

    def settle(self) -> None:
        if type(self.optimizer) not in ZERO_GRADIENT_HOLDS:
            self._zero_weights_and_state()

    def _zero_weights_and_state(self) -> None:
        for name, bits in self._bits.items():
            weight = self.weights[name]
            _zero_pruned(weight.detach(), bits)
            for value in self.optimizer.state.get(weight, {}).values():
                if isinstance(value, Tensor) and value.shape == weight.shape:
                    _zero_pruned(value, bits)


# A mask as bit patterns, all ones where the weight lives: several times faster on a CPU than a multiplication by a bool
# mask, and it gives +0.0 also where a gradient is NaN or infinite. One byte a weight is sign-extended on the way; small
# networks, whose steps are short, get patterns of full width, which take half the time.
INTEGER_OF_SIZE = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
SMALL_NETWORK = 2**19


def mask_bytes(weights: Mapping[str, Tensor]) -> dict[str, int]:
    """How many bytes the mask of each layer takes for one of its weights."""
    small = sum(weight.numel() for weight in weights.values()) <= SMALL_NETWORK
    return {name: weight.element_size() if small else 1 for name, weight in weights.items()}


def _as_bits(mask: Tensor, weight: Tensor, width: int) -> Tensor:
    return torch.empty_like(weight, dtype=INTEGER_OF_SIZE[width], requires_grad=False).copy_(mask).neg_()


def _zero_pruned(values: Tensor, bits: Tensor) -> None:
    values.view(INTEGER_OF_SIZE[values.element_size()]).bitwise_and_(bits)


def _first_difference(given: dict[str, torch.Size], wanted: dict[str, torch.Size]) -> str:
    for name in [*wanted, *given]:
        if given.get(name) != wanted.get(name):
            return f"layer '{name}' is {_shape(wanted.get(name))} in the network and {_shape(given.get(name))} there"
    raise AssertionError("called for equal shapes")


def _shape(shape: torch.Size | None) -> str:
    return "absent" if shape is None else "x".join(map(str, shape))

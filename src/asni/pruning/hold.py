"""Holds pruned weights at zero during training; most pruning methods build on it."""

from collections.abc import Mapping
from typing import Any, Unpack

import torch
from torch import Tensor, nn

from asni.errors import UsageError
from asni.pruning.layers import Layers, prunable, trained_by
from asni.pruning.masks import (
    Masks,
    nonzero_masks,
    require_fitting,
    require_same_on_every_rank,
    weight_count,
    weights_of,
)
from asni.pruning.pruner import Pruner

# These optimisers keep a weight and its state at zero while its gradient and state are zero.
ZERO_GRADIENT_HOLDS = (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW)


class Hold(Pruner):
    """Holds pruned weights and their optimiser state at exactly zero, using hooks on the optimiser.

    The model's structure does not change: same class, same state_dict keys, deepcopy works. `masks` says which weights
    live; without it, all zeros in the prunable weights are held (see `prunable` for `include` and `exclude`). Weights
    or optimiser states loaded later are zeroed in the next step. Writes through `.data` are not detected.

    >>> model = nn.Linear(2, 1, bias=False)
    >>> _ = model.weight.data.copy_(torch.tensor([[1.0, 0.0]]))
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> hold = Hold(model, optimizer)
    >>> model(torch.ones(1, 2)).sum().backward(); optimizer.step()
    >>> model.weight.data
    tensor([[0.9000, 0.0000]])
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        masks: Mapping[str, Tensor] | None = None,
        **layers: Unpack[Layers],
    ):
        if masks is not None and layers:
            raise UsageError("masks already select the weights to hold: leave out include and exclude, or the masks.")
        held = prunable(model, **layers) if masks is None else weights_of(model, masks)
        super().__init__(optimizer, trained_by(optimizer, held))
        self._of_other_optimizers = held.keys() - self.weights.keys()
        self._hooks.append(optimizer.register_load_state_dict_post_hook(self._forget_versions))
        self.masks = nonzero_masks(self.weights) if masks is None else dict(masks)

    @property
    def masks(self) -> Masks:
        """Which weights live; assigning masks zeroes the pruned weights and their optimiser state immediately."""
        return {name: bits != 0 for name, bits in self._bits.items()}

    @masks.setter
    def masks(self, masks: Masks) -> None:
        own = {name: mask for name, mask in masks.items() if name not in self._of_other_optimizers}
        require_fitting(own, self.weights)
        require_same_on_every_rank(own)
        widths = mask_bytes(self.weights)
        self._bits = {name: _as_bits(own[name], weight, widths[name]) for name, weight in self.weights.items()}
        self._dense = all(bool(mask.all()) for mask in own.values())
        self._zero_weights_and_state()

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "masks": self.masks}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        self.masks = state["masks"]

    def before_step(self) -> None:
        if self._dense:
            return
        if self._versions != self._versions_now():
            self._zero_weights_and_state()
        for name, bits in self._bits.items():
            gradient = self.weights[name].grad
            if gradient is not None:
                _zero_pruned(gradient, bits)

    def settle(self) -> None:
        if type(self.optimizer) in ZERO_GRADIENT_HOLDS or self._dense:
            self._versions = self._versions_now()
        else:
            self._zero_weights_and_state()

    def _versions_now(self) -> list[int]:
        """Torch's write counters of the weights: an unexpected value means that other code wrote them."""
        return [weight._version for weight in self.weights.values()]

    def _forget_versions(self, _: torch.optim.Optimizer) -> None:
        self._versions = []

    def _zero_weights_and_state(self) -> None:
        for name, bits in self._bits.items():
            weight = self.weights[name]
            _zero_pruned(weight.detach(), bits)
            for value in self.optimizer.state.get(weight, {}).values():
                if isinstance(value, Tensor) and value.shape == weight.shape:
                    _zero_pruned(value, bits)
        self._versions = self._versions_now()


# A mask as bit patterns, all ones where the weight lives: several times faster on a CPU than a multiplication by a bool
# mask, and it gives +0.0 also where a gradient is NaN or infinite. Masks of one byte per weight are sign-extended when
# applied; small networks, whose steps are short, use patterns of full width, which take half the time.
INTEGER_OF_SIZE = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
SMALL_NETWORK = 2**19


def mask_bytes(weights: Mapping[str, Tensor]) -> dict[str, int]:
    """Bytes per weight of each layer's mask."""
    small = weight_count(weights) <= SMALL_NETWORK
    return {name: weight.element_size() if small else 1 for name, weight in weights.items()}


def _as_bits(mask: Tensor, weight: Tensor, width: int) -> Tensor:
    return torch.empty_like(weight, dtype=INTEGER_OF_SIZE[width], requires_grad=False).copy_(mask != 0).neg_()


def _zero_pruned(values: Tensor, bits: Tensor) -> None:
    values.view(INTEGER_OF_SIZE[values.element_size()]).bitwise_and_(bits)

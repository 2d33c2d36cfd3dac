"""Holds pruned weights at zero during training; most pruning methods build on it."""

from collections.abc import Mapping
from typing import Any, Unpack

import torch
from torch import Tensor, nn

from asni.errors import UsageError
from asni.pruning.layers import Layers, prunable, survey, trained_by
from asni.pruning.length import Length
from asni.pruning.masks import (
    Masks,
    checked_masks,
    count,
    nonzero_masks,
    renamed,
    require_fitting,
    require_same_on_every_rank,
    share_of_zeros,
    weight_count,
    weights_of,
)
from asni.pruning.messages import say, warn
from asni.pruning.optimizers import unwrapped
from asni.pruning.pruner import Pruner
from asni.pruning.sharded import any_sharded, from_local, local, spread_like

# These optimisers keep a weight and its state at zero while its gradient and state are zero.
ZERO_GRADIENT_HOLDS = (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW)

_STEPS = ("before_step", "mask_gradient", "settle", "after_step", "prune", "update_masks")
"""What a subclass may do in a step, and with its masks."""

LOOKS_PRUNED = 0.001
"""The fraction of zeros above which a network was pruned before: initial values and rounding give next to none."""


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
        *,
        target: int | None = None,
        length: Length | None = None,
        **layers: Unpack[Layers],
    ):
        if masks is not None and layers:
            raise UsageError("masks already select the weights to hold: leave out include and exclude, or the masks.")
        if masks is None:
            held = prunable(model, **layers)
        else:
            masks = renamed(checked_masks(masks), dict(model.named_parameters(remove_duplicate=False)))
            held = weights_of(model, masks)
        super().__init__(model, optimizer, trained_by(unwrapped(optimizer), held), target=target, length=length)
        self.layers = layers
        self._of_other_optimizers = held.keys() - self.weights.keys()
        self._holds_zeros = masks is None
        self._sharded = any_sharded(self.weights.values())
        self._hooks.append(self.optimizer.register_load_state_dict_post_hook(self._forget_versions))
        self.masks = nonzero_masks(self.weights) if masks is None else masks

    @property
    def alive(self) -> int:
        # Counted when the masks changed: a single process can ask, and asking is cheap.
        return self._ending.alive

    @property
    def masks(self) -> Masks:
        """Which weights live; assigning masks zeroes the pruned weights, and their optimiser state once it is used."""
        return {name: from_local(bits != 0, self.weights[name]) for name, bits in self._bits.items()}

    @masks.setter
    def masks(self, masks: Masks) -> None:
        named = renamed(checked_masks(masks), self.weights)
        own = {name: mask for name, mask in named.items() if name not in self._of_other_optimizers}
        require_fitting(own, self.weights)
        require_same_on_every_rank(own)
        widths = mask_bytes(self.weights)
        self._bits = {name: _as_bits(own[name], weight, widths[name]) for name, weight in self.weights.items()}
        self.mask_changes += 1
        self._ending.alive = count(own)
        self._dense = self._ending.alive == self._ending.weights
        self._zero_weights()
        if self._begun:
            self._zero_state()
        else:
            # A state that was loaded before may belong to masks that are still to be loaded.
            self._forget_versions()
        self.warn_of_nearly_empty(own)

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "masks": {self.names_in_state[name]: mask for name, mask in self.masks.items()}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        if "masks" not in state:
            raise UsageError("the state has no masks: it was saved incompletely.")
        self.masks = state["masks"]

    @property
    def verb(self) -> str:
        return "keeps the zeros of" if self.target is None else super().verb

    def begin(self) -> None:
        super().begin()
        if self._holds_zeros:
            # The sparse weights may have been loaded after this was made.
            self.masks = nonzero_masks(self.weights)
            self._warn_of_zeros_not_held()

    @torch.no_grad()
    def finish(self) -> None:
        super().finish()
        overwritten = count({name: (self.weights[name] != 0) & ~mask for name, mask in self.masks.items()})
        if overwritten:
            self._zero_weights()
            self._zero_state()
            warn(
                f"{overwritten:,} pruned weights of {type(self).__name__} were overwritten, by an average of weights "
                "or through .data; they are zero again. Make averages sparse with apply_to before you use them."
            )

    def before_step(self) -> None:
        if self._dense:
            return
        if self._versions != self._versions_now():
            self._zero_weights()
            self._zero_state()
        self.mask_gradients()

    def mask_gradient(self, name: str) -> None:
        gradient = self.weights[name].grad
        if gradient is not None and not self._dense:
            _zero_pruned(local(gradient) if self._sharded else gradient, self._bits[name])

    def settle(self) -> None:
        if type(self.optimizer) in ZERO_GRADIENT_HOLDS or self._dense:
            self._versions = self._versions_now()
        else:
            self._zero_weights()
            self._zero_state()

    @property
    def fixed_steps(self) -> int | None:
        return None if self.steps_as(Hold) else 0

    def steps_as(self, kind: type[Pruner]) -> bool:
        """Whether a step does what it does in `kind`: a subclass with code of its own may change the masks there."""
        own = type(self)
        return all(getattr(own, name, None) is getattr(kind, name, None) for name in _STEPS)

    def warn_if_pruned_before(self, share: float) -> None:
        """Warn that a pruner starts from a sparse network, whose zeros it does not hold."""
        if share >= LOOKS_PRUNED:
            warn(
                f"{share:.1%} of the weights are already zero, but {type(self).__name__} is at step 0, so they may "
                "grow again. To resume, load the pruner's state_dict; to keep the zeros, use asni.Hold."
            )

    def _warn_of_zeros_not_held(self) -> None:
        if self._dense:
            say("Hold found no zeros to keep. Load the sparse weights, or pass masks, before the first step.")
        for each in survey(self.model, **self.layers):
            share = share_of_zeros({each.name: each.parameter}) if each.parameter.ndim >= 2 else 0.0
            if each.left_out and share >= 0.1:
                warn(
                    f"{share:.1%} of '{each.name}' is zero, but Hold does not hold it ({each.left_out}). "
                    "If it was pruned, pass its masks, or include= as you did to prune it."
                )

    def _versions_now(self) -> list[int]:
        """Torch's write counters of the weights: an unexpected value means that other code wrote them."""
        versions = [weight._version for weight in self.weights.values()]
        if self._sharded:
            # Whoever writes a DTensor through its shard moves only the shard's counter.
            versions += [local(weight)._version for weight in self.weights.values()]
        return versions

    def _forget_versions(self, *_: object) -> None:
        """Zero weights and state before the next step."""
        self._versions = []

    def _zero_weights(self) -> None:
        for name, bits in self._bits.items():
            _zero_pruned(local(self.weights[name]), bits)
        self._versions = self._versions_now()

    def _zero_state(self) -> None:
        for name, bits in self._bits.items():
            weight = self.weights[name]
            for value in self.optimizer.state.get(weight, {}).values():
                if isinstance(value, Tensor) and value.shape == weight.shape:
                    _zero_pruned(local(value), bits)


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
    lives = local(spread_like(mask, weight)) != 0
    return torch.empty_like(local(weight), dtype=INTEGER_OF_SIZE[width]).copy_(lives).neg_()


def _zero_pruned(values: Tensor, bits: Tensor) -> None:
    values.view(INTEGER_OF_SIZE[values.element_size()]).bitwise_and_(bits)

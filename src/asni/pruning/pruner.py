"""The base class of pruners: hooks that run before and after each optimiser step."""

import weakref
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from asni.errors import AsniError, UsageError
from asni.pruning.accumulation import BackwardPasses
from asni.pruning.copies import stop_warning, warn_in_copies
from asni.pruning.ending import Ending, percent
from asni.pruning.foreign_steps import pruners_of, stop_watching, watch
from asni.pruning.layers import Layers, plain_names, survey
from asni.pruning.length import Length
from asni.pruning.masks import Masks, count, nearly_empty, renamed, shape_of, weight_count, weights_of
from asni.pruning.messages import say, warn
from asni.pruning.optimizers import calls_parent_step, is_inner_step, only_makes_state, trained_count, unwrapped
from asni.pruning.overview import overview
from asni.pruning.pruner_html import pruner_html
from asni.pruning.sharded import local, spread_like


class Pruner(ABC):
    """Prunes through optimiser hooks, so that the training loop does not change.

    It prunes `weights`, a subset of the optimiser's parameters, and does not touch the others. As a context manager, it
    calls `finish` at the end of the block.

    >>> import asni
    >>> model = nn.Linear(10, 10)
    >>> optimizer = torch.optim.Adam(model.parameters())
    >>> with asni.ASNI(model, optimizer, sparsity=0.9, epochs=5, steps_per_epoch=100) as pruner:
    ...     isinstance(pruner, asni.Pruner), pruner.sparsity
    (True, 0.0)
    >>> pruner.alive, pruner.masks["weight"].sum()
    (10, tensor(10))
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimizer,
        weights: Mapping[str, Tensor],
        *,
        target: int | None = None,
        length: Length | None = None,
    ):
        self.model, self.optimizer = model, unwrapped(optimizer)
        self.weights = dict(weights)
        self.names_in_state = plain_names(self.weights)
        self.require_alone()
        self.target, self.length = target, length
        self.layers: Layers = {}
        self.settings: dict[str, Any] = {}
        self.steps = 0
        self.mask_changes = 0
        """How often the masks were assigned."""
        total = weight_count(self.weights)
        self._ending = Ending(type(self).__name__, total, total, target, None if length is None else length.steps)
        weakref.finalize(self, self._ending.dropped)
        self._begun = False
        self._may_nest = calls_parent_step(self.optimizer)
        self._trained = trained_count(self.optimizer)
        self._known = set(self._trained_parameters())
        self._finished = False
        self._told_nearly_empty: set[str] = set()
        self.is_stepping = False
        self._passes = None
        trainable = [weight for weight in self.weights.values() if weight.requires_grad]
        if length is not None and not length.counted_by_user and trainable:
            self._passes = BackwardPasses(trainable[0])
        watch(self)
        warn_in_copies(self.optimizer, type(self).__name__)
        self._hooks = [
            self.optimizer.register_step_pre_hook(self._before_step),
            self.optimizer.register_step_post_hook(self._after_step),
        ]

    def __repr__(self) -> str:
        pruned = percent(self._ending.weights, self.alive)
        return f"{type(self).__name__}({self.progress}, {pruned} pruned, {self.alive:,} alive)"

    def _repr_html_(self) -> str:
        return pruner_html(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        if error is None:
            self.finish()

    @property
    def progress(self) -> str:
        """How far the training is, as text for the repr."""
        return f"step {self.steps:,}" + ("" if self.length is None else f"/{self.length.steps:,}")

    def planned(self, step: int) -> float | None:
        """The sparsity that is planned after a step; None for a method without a schedule."""
        return None

    @property
    def sparsity(self) -> float:
        """The fraction of the prunable weights that is pruned now."""
        return 1 - self.alive / max(self._ending.weights, 1)

    @property
    def alive(self) -> int:
        """How many of the prunable weights live now."""
        return count(self.masks)

    @property
    @abstractmethod
    def masks(self) -> Masks:
        """Which weights live."""

    @property
    def fixed_steps(self) -> int | None:
        """How many of the coming steps need neither this pruner nor the gradients of pruned weights; None for all.

        During these steps the masks stay as they are, and a loop may train the living weights in any way. It calls
        `stepped` after each of them, with the weights in the model after the last one.
        """
        return 0

    def state_dict(self) -> dict[str, Any]:
        """The pruner's state and settings, to save in a checkpoint with the states of the model and the optimiser."""
        layers = {self.names_in_state[name]: list(weight.shape) for name, weight in self.weights.items()}
        return {"method": type(self).__name__, "settings": self.settings, "layers": layers, "steps": self.steps}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume from a checkpoint; a state of another method, other settings or another network is refused.

        The order in which model, optimiser and pruner are created and loaded does not matter.
        """
        self._require_own(state)
        self.steps = self._ending.steps = state["steps"]

    @abstractmethod
    def before_step(self) -> None:
        """Called with the gradients of the whole network, before the optimiser uses them."""

    @abstractmethod
    def settle(self) -> None:
        """Called when the optimiser is done with the weights, even if a gradient scaler skipped the step."""

    def after_step(self) -> None:
        """Called after each step that was not skipped; subclasses prune here."""
        self.steps += 1
        self._ending.steps = self.steps
        if self.length is None:
            return
        if self._passes is not None and not self._passes.after_step(self.steps, self.length.steps):
            self._passes = None
        if self.steps == self.length.steps + 1 and not self._finished:
            warn(
                f"{type(self).__name__} was made for {self.length.steps:,} optimiser steps, and more follow. "
                "Its pruning ended too early for this training: give it the real number with total_steps=."
            )

    @torch.no_grad()
    def stepped(self) -> None:
        """Count a step without the hooks of the optimiser: it was taken in another way, or by a scaler skipped."""
        if not self._begun or trained_count(self.optimizer) != self._trained:
            self._look_around()
        self.after_step()

    def finish(self) -> None:
        """Prune to the target now, if the training ended before the schedule did, and say so."""
        self._finished = True

    def require_alone(self) -> None:
        """Refuse a second pruner on the same weights: both would prune, and each would report its own sparsity."""
        own = {id(weight): name for name, weight in self.weights.items()}
        for other in pruners_of(self.optimizer):
            shared = [own[id(weight)] for weight in other.weights.values() if id(weight) in own]
            if shared:
                raise UsageError(
                    f"'{shared[0]}' is already pruned by {other!r} on this optimizer. Call its detach() first."
                )

    def mask_gradients(self) -> None:
        """Set the gradients of pruned weights to zero; call it before you clip or log gradients."""
        for name in self.weights:
            self.mask_gradient(name)

    def mask_gradient(self, name: str) -> None:  # noqa: B027 (a pruner without masks has nothing to mask)
        """Set the gradients of the pruned weights of one layer to zero; a hook of the backward pass may call it."""

    def clip_grad_norm_(self, max_norm: float, norm_type: float = 2.0) -> Tensor:
        """Clip as torch.nn.utils.clip_grad_norm_ does, without the gradients of pruned weights; returns the norm."""
        self.mask_gradients()
        parameters = [parameter for group in self.optimizer.param_groups for parameter in group["params"]]
        return nn.utils.clip_grad_norm_(parameters, max_norm, norm_type)

    @torch.no_grad()
    def apply_to(self, model: nn.Module) -> None:
        """Zero the pruned weights in a copy of the model, such as an exponential moving average of its weights."""
        if not isinstance(model, nn.Module):
            raise UsageError(f"apply_to takes a torch.nn.Module, not {type(model).__name__}.")
        masks = renamed(self.masks, dict(model.named_parameters(remove_duplicate=False)))
        for name, weight in weights_of(model, masks).items():
            mask = local(spread_like(masks[name].to(weight.device), weight))
            local(weight).masked_fill_(~mask, 0.0)

    def detach(self) -> None:
        """Remove the hooks from the optimiser; the weights keep their values."""
        self._ending.detached()
        if self._passes is not None:
            self._passes.stop()
        stop_watching(self)
        if not pruners_of(self.optimizer):
            stop_warning(self.optimizer)
        for hook in self._hooks:
            hook.remove()

    def warn_of_nearly_empty(self, masks: Masks) -> None:
        """Warn, once for each layer, that almost no signal passes through it."""
        living = nearly_empty(masks)
        new = [name for name in living if name not in self._told_nearly_empty]
        self._told_nearly_empty.update(new)
        if new:
            listed = ", ".join(f"'{name}' ({living[name]:,} of {masks[name].numel():,})" for name in new[:3])
            more = f" and {len(new) - 3} more layers" * (len(new) > 3)
            whose = "its" if len(new) == 1 else "their"
            warn(
                f"almost no signal passes through {listed}{more}: few of {whose} weights are left. Keep some of each "
                'layer with floor=0.01, rank with score="lamp", or leave the layers out with exclude=.'
            )

    def begin(self) -> None:
        """Called before the first step of a training that starts from its beginning; subclasses check the weights."""
        say(f"{type(self).__name__} {self.verb} {overview(survey(self.model, **self.layers), self.weights)}.")

    @property
    def verb(self) -> str:
        """What it does to the weights, for a sentence."""
        return "prunes"

    def weights_now(self) -> dict[str, Tensor]:
        """What the model now has under the names of the weights; others than the weights after they were replaced."""
        known = dict(self.model.named_parameters(remove_duplicate=False))
        return {name: known.get(name, weight) for name, weight in self.weights.items()}

    @property
    def step_is_skipped(self) -> bool:
        # A gradient scaler calls a fused optimiser even for a step that it skips.
        found_inf = getattr(self.optimizer, "found_inf", None)
        return found_inf is not None and bool(found_inf.item())

    def _before_step(self, _: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._ignores_step():
            return None
        self.is_stepping = True
        if not self._begun or trained_count(self.optimizer) != self._trained:
            self._look_around()
        this, *rest = args
        closure = rest[0] if rest else kwargs.get("closure")
        if closure is None:
            with torch.no_grad():
                self.before_step()
            return None
        if self._passes is not None:
            # A closure may run backward many times in one step.
            self._passes.stop()
            self._passes = None

        def closure_and_then() -> Any:
            loss = closure()
            with torch.no_grad():
                self.before_step()
            return loss

        if rest:
            return (this, closure_and_then, *rest[1:]), kwargs
        return args, {**kwargs, "closure": closure_and_then}

    @torch.no_grad()
    def _after_step(self, *_: Any) -> None:
        if self._ignores_step():
            return
        self.is_stepping = False
        self.settle()
        if not self.step_is_skipped:
            self.after_step()

    def _ignores_step(self) -> bool:
        """Whether a step is none of the training: one within another, or one that only makes the optimiser's state."""
        if torch.compiler.is_compiling():
            return False
        return (self._may_nest and is_inner_step(self.optimizer)) or only_makes_state(self.optimizer)

    @torch.no_grad()
    def _look_around(self) -> None:
        """Before the first step, and when the optimiser's parameters have changed: is all as this pruner was told?"""
        self._trained = trained_count(self.optimizer)
        trained = self._trained_parameters()
        optimized = {id(parameter) for group in self.optimizer.param_groups for parameter in group["params"]}
        for name, weight in self.weights.items():
            if id(weight) not in optimized:
                raise AsniError(
                    f"the optimizer no longer trains '{name}' as it was when {type(self).__name__} was made: its "
                    "parameters were replaced. Create the pruner after wrapping, sharding or moving the model."
                )
        if not self._begun and self.steps == 0:
            self.begin()
        self._warn_of_frozen_layers()
        self._warn_of_new_layers(trained)
        self._begun, self._known = True, set(trained)

    def _trained_parameters(self) -> dict[int, Tensor]:
        parameters = (parameter for group in self.optimizer.param_groups for parameter in group["params"])
        return {id(parameter): parameter for parameter in parameters if parameter.requires_grad}

    def _warn_of_frozen_layers(self) -> None:
        frozen = [
            name for name, weight in self.weights.items() if not weight.requires_grad and id(weight) in self._known
        ]
        if frozen:
            warn(
                f"{len(frozen)} layers such as '{frozen[0]}' were frozen after {type(self).__name__} was made, which "
                "goes on pruning them. Create the pruner after freezing, or leave them out with exclude=."
            )

    def _warn_of_new_layers(self, trained: Mapping[int, Tensor]) -> None:
        late = trained.keys() - self._known - {id(weight) for weight in self.weights.values()}
        new = [each for each in survey(self.model, **self.layers) if not each.left_out and id(each.parameter) in late]
        if new:
            warn(
                f"the optimizer now also trains {len(new)} prunable layers such as '{new[0].name}' "
                f"({new[0].parameter.numel():,} weights), which {type(self).__name__} does not prune. "
                "Create the pruner after add_param_group and after unfreezing."
            )

    def _require_own(self, state: Mapping[str, Any]) -> None:
        kind = type(self).__name__
        if not isinstance(state, Mapping) or not {"method", "settings", "layers", "steps"} <= state.keys():
            raise UsageError(f"this is no state of a pruner: pass what {kind}.state_dict() returned.")
        if state["method"] != kind:
            raise UsageError(f"the state is that of {state['method']}, but this pruner is {kind}.")
        here = {self.names_in_state[name]: weight for name, weight in self.weights.items()}
        for name in [*here, *state["layers"]]:
            ours, theirs = shape_of(here.get(name)), shape_of(state["layers"].get(name))
            if ours != theirs:
                raise UsageError(
                    f"the state is that of another network: '{name}' is {theirs} in the state and {ours} here."
                )
        for key in {**self.settings, **state["settings"]}:
            now, then = self.settings.get(key), state["settings"].get(key)
            if now != then:
                raise UsageError(
                    f"the state is that of another {kind}: {key} is {then} in the state and {now} here. "
                    "Give this pruner the settings of the checkpoint."
                )

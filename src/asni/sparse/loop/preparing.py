"""Kernels for a model as it is at this moment: made when they are first needed, and again when the masks change."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from asni.pruning.masks import Masks
from asni.pruning.pruner import Pruner
from asni.sparse.loop.passes import Passes
from asni.sparse.loop.surroundings import form_of, hooked
from asni.sparse.network.network import Network
from asni.sparse.network.prediction import predicted_gain
from asni.sparse.network.threads import useful_threads
from asni.sparse.optimizers.in_place import InPlace
from asni.sparse.steps import Steps, UnsupportedError
from asni.sparse.tracing.tracing import traced

FEWEST_STEPS = 10
"""Masks that change sooner are not worth kernels of their own."""

Changes = tuple[tuple[Pruner, int], ...]


class NotNowError(UnsupportedError):
    """Torch must run this pass; a later one may be for the kernels."""


@dataclass(frozen=True)
class Kernels:
    """All that is made for certain masks, which the pruners have had since so many changes."""

    changes: Changes
    masks: Masks
    network: Network
    passes: Passes
    optimizer: InPlace
    gain: float


class Preparing:
    """Keeps the kernels of a model up to date."""

    def __init__(self, model: nn.Module, optimizer: Optimizer) -> None:
        self.model, self.optimizer = model, optimizer
        self._form: Any = None
        self._last_form: Any = None
        self._steps: Steps | None = None
        self._refusal = ""
        self._kernels: Kernels | None = None

    def passes_for(self, images: Tensor, pruners: Sequence[Pruner]) -> Passes:
        """What runs a batch in training mode; an `UnsupportedError` says why torch must do it."""
        for pruner in pruners:
            if pruner.fixed_steps == 0:
                raise NotNowError(f"{type(pruner).__name__} needs the gradients of pruned weights")
            if pruner.steps == 0:
                raise NotNowError(f"{type(pruner).__name__} settles its masks in its first step")
        self._trace(images)
        if self._steps is None:
            # A new error for each pass: one that is raised again keeps what all passes held.
            raise UnsupportedError(self._refusal)
        kernels = self._kernels_for(self._steps, pruners, len(images))
        if kernels.gain < 1:
            why = f"sparse kernels would be {kernels.gain:.1f}x as fast"
            raise UnsupportedError(why) if _are_final(pruners) else NotNowError(why)
        if not kernels.passes.is_free:
            raise NotNowError("the backward pass of an earlier forward pass is still to come")
        return kernels.passes

    def optimizer_for(self, pruners: Sequence[Pruner]) -> InPlace | None:
        """What steps the nonzeros, if there are kernels for the present masks, which the gradients have been given."""
        kernels = self._kernels
        if kernels is None or kernels.changes != _changes(pruners):
            return None
        return kernels.optimizer

    def _trace(self, images: Tensor) -> None:
        """Find the steps of the model anew if it is not as it was, or if its images have another shape."""
        form_of_model = form_of(self.model)
        if form_of_model is None:
            raise NotNowError("the model has other tensors than plain parameters and buffers")
        form = (form_of_model, images.shape[1:])
        last, self._last_form = self._last_form, form
        if form == self._form:
            return
        if self._form is not None and form != last:
            # What differs in every pass is not worth the time.
            raise NotNowError("the model or the shape of its images has changed")
        self._form, self._kernels, self._steps = form, None, None
        try:
            if name := hooked(self.model):
                raise UnsupportedError(f"a hook on {name} needs to see its values")
            self._steps = traced(self.model, images)
        except UnsupportedError as refusal:
            self._refusal = str(refusal)

    def _kernels_for(self, steps: Steps, pruners: Sequence[Pruner], items: int) -> Kernels:
        kernels, changes = self._kernels, _changes(pruners)
        if kernels is not None and kernels.changes == changes and items <= kernels.network.items:
            return kernels
        masks = self._masks(pruners)
        if kernels is not None and items <= kernels.network.items and _same(masks, kernels.masks):
            self._kernels = replace(kernels, changes=changes)
            return self._kernels
        if any(pruner.fixed_steps is not None and pruner.fixed_steps < FEWEST_STEPS for pruner in pruners):
            raise NotNowError("the masks change too often")
        # Memory for one network at a time.
        self._kernels = kernels = None
        threads = useful_threads(steps, self.model, masks, items)
        try:
            network = Network(steps, self.model, masks, items=items, threads=threads)
        except UnsupportedError as refusal:
            self._steps, self._refusal = None, str(refusal)
            raise
        optimizer = InPlace(self.optimizer, network.vector, threads)
        self._kernels = Kernels(changes, masks, network, Passes(network), optimizer, predicted_gain(network))
        return self._kernels

    def close(self) -> None:
        """Forget the kernels."""
        self._form = self._kernels = None

    def _masks(self, pruners: Sequence[Pruner]) -> Masks:
        """The masks of all pruners, under the names that the model has for the weights."""
        names = {id(parameter): name for name, parameter in self.model.named_parameters(remove_duplicate=False)}
        return {
            names[id(pruner.weights[name])]: mask
            for pruner in pruners
            for name, mask in pruner.masks.items()
            if id(pruner.weights[name]) in names
        }


def _changes(pruners: Sequence[Pruner]) -> Changes:
    return tuple((pruner, pruner.mask_changes) for pruner in pruners)


def _are_final(pruners: Sequence[Pruner]) -> bool:
    return all(pruner.fixed_steps is None for pruner in pruners)


def _same(masks: Masks, others: Masks) -> bool:
    return masks.keys() == others.keys() and all(torch.equal(mask, others[name]) for name, mask in masks.items())

"""A model with its masks as a program of native kernels: forward, backward, and whole training steps."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from asni.engine.graph import Array
from asni.engine.machine import memory
from asni.engine.native import choice, library
from asni.engine.program.calls import Draft
from asni.engine.program.geometry import Window
from asni.engine.program.layers import MOST_FLOATS
from asni.engine.program.layouts import NO_HALO, Halo, Machine
from asni.engine.program.program import Memory, Program
from asni.engine.program.types import Operation
from asni.engine.steps import Steps as EngineSteps
from asni.errors import UsageError
from asni.sparse.network.batches import checked_images, checked_labels, require_running_statistics, require_size
from asni.sparse.network.choices import plan_of_convolution, plan_of_linear
from asni.sparse.network.drafting import Drafter, Values, gradient, layouts_of
from asni.sparse.network.layers import Site
from asni.sparse.network.tables import halo_of_gradient, walk_of_convolution, walk_of_features
from asni.sparse.network.vector import Slice, Vector, require_dense_memory
from asni.sparse.steps import Step, Steps, UnsupportedError

MOST_MEMORY = 0.7
"""The part of the machine's memory that the values of a batch may take."""


class Optimizer(Protocol):
    """Steps the numbers of a network by operations for the native core."""

    operations: Any

    def advance(self) -> None:
        """Prepare the operations for the next step."""


class Network:
    """Trains one model with fixed masks on batches of up to `items` images.

    A parameter without a mask is dense. The numbers that are trained lie in `weights`, their gradients in `gradient`.
    """

    def __init__(
        self, steps: Steps, model: nn.Module, masks: Mapping[str, Tensor], *, items: int, threads: int
    ) -> None:
        if library() is None:
            raise UnsupportedError(f"sparse ones need the native core ({choice().why})")
        self.steps, self.items, self.threads = steps, items, threads
        self._then: Any = None
        self._train_and_then: Any
        self.machine = Machine(choice().lanes)
        self.groups = -(-items // self.machine.lanes)
        self._parameters = _checked(steps, model)
        self._buffers = {name: buffer for name, buffer in model.named_buffers() if buffer.dtype == torch.float32}
        self._counters = _counters(steps, model)
        self._values = Values(steps)
        self._draft = Draft("lanes", self.machine)
        layouts_of(self._values, self._draft, _halos(self._values), _gradient_halos(self._values, self._parameters))
        self._require_small_maps()
        self.sites = {
            number: self._site(number, step, masks)
            for number, step in enumerate(steps.steps)
            if step.kind in ("conv", "linear")
        }
        self.vector = Vector(model, self._orders(), threads)
        self._write()

    @property
    def weights(self) -> Array:
        """All trained numbers."""
        return self.vector.weights

    @property
    def gradient(self) -> Array:
        """Their gradients: rows to be added up, one for every thread."""
        return self.vector.gradient

    @property
    def slices(self) -> dict[str, Slice]:
        """Where the numbers of each parameter are in the vector."""
        return self.vector.slices

    def load(self) -> None:
        """Take all numbers from the model."""
        self.vector.load()

    def store(self) -> None:
        """Give all numbers to the model."""
        self.vector.store()

    def forward(self, images: Array, *, training: bool) -> Array:
        """The logits of a batch; in evaluation mode, of any number of images."""
        images = checked_images(images, self.steps.shapes[self.steps.input])
        if training:
            require_size(self.steps, len(images), self.items)
        elif len(images) > self.items:
            require_running_statistics(self.steps)
        self._set_mode(training)
        self._forwarded = len(images)
        logits = np.empty((len(images), self._classes), np.float32)
        is_finite = self._memory.run_some(self._forward, (images,), (logits,), len(images))
        if training and not is_finite:
            # Pruned weights have passed over it; zeros would not have.
            logits.fill(np.nan)
        return logits

    def backward(self, gradient: Array) -> None:
        """Fill the gradients of all numbers, given that of the logits of the last forward pass in training mode."""
        gradient = np.ascontiguousarray(gradient, np.float32)
        if gradient.shape != (self._forwarded, self._classes):
            raise UsageError(f"a gradient of shape {gradient.shape} for logits of {(self._forwarded, self._classes)}.")
        self._memory.run_some(self._backward, (self._nothing, self._nothing, gradient), (), len(gradient))

    def repeat(self, images: Array) -> None:
        """Run the last forward pass in training mode again, after a backward pass has taken the memory of its values.

        Drop-out leaves out the same values, and batch norm does not count the batch twice.
        """
        momenta = [norm.momentum for norm in self._norms]
        for norm in self._norms:
            norm.momentum = 0.0
        logits = np.empty((len(images), self._classes), np.float32)
        try:
            self._memory.run_some(self._forward, (images,), (logits,), len(images))
        finally:
            for norm, momentum in zip(self._norms, momenta, strict=True):
                norm.momentum = momentum

    def train(self, images: Array, labels: Array, scale: float, optimizer: Optimizer | None = None) -> float:
        """Forward, the mean cross entropy times `scale`, and backward in one call; returns the loss.

        The same call takes the step of an optimiser, if there is one.
        """
        images = checked_images(images, self.steps.shapes[self.steps.input])
        require_size(self.steps, len(images), self.items)
        labels = checked_labels(labels, len(images), self._classes)
        self._set_mode(True)
        self._drafter.scale[0] = scale
        if optimizer is not None:
            optimizer.advance()
        then = None if optimizer is None else optimizer.operations
        if then is not self._then:
            self._then, self._train_and_then = then, _listed(self._train, then or ())
        self._memory.run_some(self._train_and_then, (images, labels), (self._nothing, self._loss), len(images))
        return float(self._loss[0])

    # How it is made

    def _require_small_maps(self) -> None:
        largest = max(layout.floats for layout in self._draft.layouts.values())
        if largest > MOST_FLOATS:
            raise UnsupportedError(
                f"{self.machine.lanes} images have a map of {4 * largest / 1e9:.0f} GB, and the kernels reach 8 GB"
            )

    def _site(self, number: int, step: Step, masks: Mapping[str, Tensor]) -> Site:
        weight = self._parameters[step.parameters["weight"]]
        x, y = self._values.maps[step.inputs[0]], step.output
        layouts, shape = self._draft.layouts, tuple(weight.shape)
        is_linear = step.kind == "linear"
        window = _window(step, weight)
        if is_linear:
            shape = (shape[0], *layouts[x].shape[1:])
            window = Window((shape[2], shape[3]), (1, 1), (1, 1), 0, 0, 1)
        mask = masks.get(step.parameters["weight"])
        lives = np.ones(shape, bool) if mask is None else mask.detach().cpu().numpy().reshape(shape)
        density = float(lives.mean()) if lives.size else 0.0
        each = max(1, self.groups // self.threads)
        needs_inputs = x != self.steps.input
        if is_linear:
            plan = plan_of_linear(
                window, density, layouts[x], layouts[y], self.machine, each, needs_inputs=needs_inputs
            )
            walk = walk_of_features(lives, layouts[gradient(y)], plan.blocks, plan.chunk)
        else:
            plan = plan_of_convolution(
                window, density, layouts[x], layouts[y], self.machine, each, needs_inputs=needs_inputs
            )
            walk = walk_of_convolution(lives, window, layouts[x], layouts[gradient(y)], plan.blocks, plan.chunk)
        return Site(
            number, step.name, x, y, window, step.parameters["weight"], step.parameters.get("bias"),
            step.settings["relu"], shape, is_linear, walk, plan,
        )  # fmt: skip

    def _orders(self) -> dict[str, Array | None]:
        orders: dict[str, Array | None] = {}
        for number, step in enumerate(self.steps.steps):
            if number in self.sites:
                orders[self.sites[number].weight] = self.sites[number].walk.order
            trained = [step.parameters[role] for role in ("weight", "bias") if role in step.parameters]
            orders |= {name: None for name in trained if name not in orders}
        return orders

    def _write(self) -> None:
        """Write all calls, and the parts of them that a training step, a forward and a backward pass take."""
        drafter = Drafter(self._values, self._draft, self.vector, self.sites)
        drafter.buffers = {name: buffer.detach().numpy() for name, buffer in self._buffers.items()}
        ends = [0]
        for part in (drafter.forward, drafter.leave, drafter.enter_gradient, drafter.loss, drafter.backward):
            part()
            ends.append(len(self._draft.calls))
        self._drafter = drafter
        program = Program(self._draft, EngineSteps(("images", "labels", "gradient"), ("logits", "loss"), (), {}))
        forward, leave, enter, loss, backward = (program.operations[begin:end] for begin, end in pairwise(ends))
        self._forward, self._backward = _listed(forward, leave), _listed(enter, backward)
        self._train = self._train_and_then = _listed(forward, loss, backward)
        self._set_parameters_of_modes(program)
        self._is_training, self._forwarded = True, 0
        self._memory = self._room_for(program)
        self._classes = self.steps.shapes[self.steps.output][1]
        self._loss, self._nothing = np.zeros(1, np.float32), np.zeros(1, np.float32)

    def _set_parameters_of_modes(self, program: Program) -> None:
        """Find the parameters that differ between training and evaluation, and from step to step."""
        written = {
            kernel: {
                call.step: parameters
                for call, parameters in zip(self._draft.calls, program.parameters, strict=True)
                if call.kernel == kernel
            }
            for kernel in ("batch_norm", "drop_out")
        }
        self._norms = [*written["batch_norm"].values()]
        self._drop_outs = [(each, each.probability) for each in written["drop_out"].values()]
        self._cumulative = [
            (parameters, self._counters[number])
            for number, parameters in written["batch_norm"].items()
            if number in self._counters and self.steps.steps[number].settings["momentum"] is None
        ]

    def _room_for(self, program: Program) -> Memory:
        needed, there_is = 4 * self.groups * program.group_floats, memory()
        if there_is is None or needed < MOST_MEMORY * there_is:
            try:
                return Memory(program, self.groups, self.threads, subnormals_are_zero=True)
            except MemoryError:
                pass
        of_all = "" if there_is is None else f", of {there_is / 1e6:,.0f} MB of memory"
        raise UnsupportedError(
            f"a batch of {self.items} takes {needed / 1e6:,.0f} MB in the layout of the kernels{of_all}"
        )

    def _set_mode(self, training: bool) -> None:
        if training:
            self._before_training_step()
        if training == self._is_training:
            return
        self._is_training = training
        for norm in self._norms:
            # Without running statistics, those of the batch are all that there is.
            norm.training = int(training or not norm.running_mean)
        for drop_out, probability in self._drop_outs:
            drop_out.probability = probability if training else 0.0

    def _before_training_step(self) -> None:
        for counter in self._counters.values():
            counter += 1
        for parameters, counter in self._cumulative:
            parameters.momentum = 1 / int(counter)
        if self._drop_outs:
            self._drafter.seed[0] = int(torch.randint(2**62, ()))


def _listed(*parts: Sequence[Any]) -> Any:
    operations = [each for part in parts for each in part]
    return (Operation * len(operations))(*operations)


def _checked(steps: Steps, model: nn.Module) -> dict[str, Tensor]:
    known: dict[str, Tensor] = dict(model.named_parameters(remove_duplicate=False))
    used = {name: known[name] for step in steps.steps for name in step.parameters.values() if name in known}
    for name, parameter in used.items():
        require_dense_memory(name, parameter)
    return used


def _counters(steps: Steps, model: nn.Module) -> dict[int, Tensor]:
    """How many batches each batch norm has seen, by the number of its step."""
    buffers = dict(model.named_buffers())
    names = {number: step.parameters.get("num_batches_tracked") for number, step in enumerate(steps.steps)}
    return {number: buffers[name] for number, name in names.items() if name is not None}


def _window(step: Step, weight: Tensor) -> Window:
    if step.kind == "linear":
        return Window((1, 1), (1, 1), (1, 1), 0, 0, 1)
    settings, (height, width) = step.settings, weight.shape[2:]
    top, left = settings["pads"][:2]
    sizes = ((height, width), settings["stride"], settings["dilation"])
    return Window(*sizes, top, left, settings["groups"], any(settings["pads"]))


def _halos(values: Values) -> dict[str, Halo]:
    """The padding that convolutions read around each map."""
    found: dict[str, Halo] = {}
    for step in values.steps.steps:
        if step.kind == "conv":
            name = values.maps[step.inputs[0]]
            before = found.get(name, NO_HALO)
            top, left, bottom, right = (max(pair) for pair in zip(before, step.settings["pads"], strict=True))
            found[name] = (top, left, bottom, right)
    return found


def _gradient_halos(values: Values, parameters: Mapping[str, Tensor]) -> dict[str, Halo]:
    """How far around the gradient of its outputs each convolution reads."""
    found: dict[str, Halo] = {}
    for step in values.steps.steps:
        if step.kind == "conv":
            window = _window(step, parameters[step.parameters["weight"]])
            size, outputs = (values.shape(name)[2:] for name in (step.inputs[0], step.output))
            found[step.output] = halo_of_gradient(window, size, outputs)
    return found

"""The gradients of a network by PyTorch's autograd, and how near it comes to where a rounding would change them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from asni.engine.graph import Array
from asni.sparse.steps import Step, Steps
from tests.sparse.torch_steps import KINDS


@dataclass(frozen=True)
class Found:
    """What PyTorch finds in one step; `buffers` are those after it.

    `margin` is the least distance of a ReLU's input from zero, and of a pool's winner from the next, as a part of the
    largest number there. `terms` is about the size of the largest numbers that are added up. Gradients may be much
    smaller: that of a bias before batch norm is zero in theory.
    """

    logits: Array
    loss: float
    gradients: dict[str, Array]
    terms: float
    buffers: dict[str, Array]
    margin: float


class _Run:
    """Runs steps one after another, and looks out for kinks."""

    def __init__(self, steps: Steps, stored: Mapping[str, Tensor], kept: Mapping[str, Array]) -> None:
        self.steps, self.stored, self.kept = steps, stored, kept
        self.margin = 1.0
        self.layers: list[tuple[Step, Tensor, Tensor]] = []

    def logits(self, images: Tensor) -> Tensor:
        values = {self.steps.input: images}
        for step in self.steps.steps:
            values[step.output] = self._made(step, [values[name] for name in step.inputs])
        return values[self.steps.output].flatten(1)

    def _made(self, step: Step, inputs: list[Tensor]) -> Tensor:
        if step.kind == "drop_out":
            return inputs[0] * torch.from_numpy(self.kept[step.output]).contiguous()
        if step.kind == "pool" and step.settings["mode"] == "max":
            self._look_at_winners(step, inputs[0].detach())
        if not step.settings.get("relu", False):
            return self._by_torch(step, inputs)
        is_relu_alone = step.kind == "add" and len(inputs) == 1
        plain = replace(step, settings={**step.settings, "relu": False})
        before = inputs[0] if is_relu_alone else self._by_torch(plain, inputs)
        self._look_at(before.detach(), before.detach())
        return before.relu()

    def _by_torch(self, step: Step, inputs: list[Tensor]) -> Tensor:
        own = {role: self.stored[name] for role, name in step.parameters.items()}
        made = KINDS[step.kind](step, inputs, own)
        if step.kind in ("conv", "linear", "batch_norm") and made.requires_grad:
            self.layers.append((step, inputs[0].detach(), made))
        return made

    def terms(self, loss: Tensor) -> float:
        """Of all gradients. Batch norm multiplies what it passes on, and most of all where a channel hardly varies."""
        gradients = torch.autograd.grad(loss, [made for _, _, made in self.layers], retain_graph=True)
        largest, slopes = 0.0, 1.0
        for (step, x, _), gradient in zip(self.layers, gradients, strict=True):
            largest = max(largest, float(gradient.abs().sum((0, 2, 3)).norm() * (1 + x.abs().max())))
            if step.kind == "batch_norm":
                weight = self.stored.get(step.parameters.get("weight", ""), torch.ones(())).detach()
                deviation = (x.var((0, 2, 3), correction=0) + step.settings["epsilon"]).sqrt()
                slopes *= max(1.0, float((weight / deviation).abs().max()))
        return largest * slopes

    def _look_at(self, differences: Tensor, numbers: Tensor) -> None:
        """What is exactly zero is so in any precision: it was cut off, pruned or dropped, or is one and the same."""
        sizes = differences.abs()[differences != 0]
        if sizes.numel():
            self.margin = min(self.margin, float(sizes.min() / numbers.abs().max()))

    def _look_at_winners(self, step: Step, x: Tensor) -> None:
        down, right = step.settings["dilation"]
        for top, bottom in step.settings["rows"]:
            for left, end in step.settings["columns"]:
                window = x[:, :, top:bottom:down, left:end:right].flatten(2)
                if window.shape[2] > 1:
                    best = window.topk(2, 2).values
                    self._look_at(best[:, :, 0] - best[:, :, 1], x)


def gradients_of(
    steps: Steps,
    model: nn.Module,
    images: Array,
    labels: Array,
    *,
    kept: Mapping[str, Array],
    scale: float,
    dtype: torch.dtype = torch.float64,
) -> Found:
    """Of the mean cross entropy times `scale`. `kept` has what each dropout multiplies by; the model stays as it is."""
    # In one memory format: torch 2.13 adds up a wrong gradient for batch norm where formats of small maps are mixed.
    stored = {
        name: each.detach().to(dtype, copy=True, memory_format=torch.contiguous_format).requires_grad_()
        for name, each in model.named_parameters()
    }
    buffers = {
        name: each.to(dtype if each.is_floating_point() else each.dtype, copy=True)
        for name, each in model.named_buffers()
    }
    run = _Run(steps, stored | buffers, kept)
    logits = run.logits(torch.from_numpy(images).to(dtype))
    loss = F.cross_entropy(logits, torch.from_numpy(labels)) * scale
    terms = run.terms(loss)
    found = torch.autograd.grad(loss, list(stored.values()), allow_unused=True, materialize_grads=True)
    gradients = {name: each.numpy() for name, each in zip(stored, found, strict=True)}
    after = {name: each.numpy() for name, each in buffers.items()}
    return Found(logits.detach().numpy(), float(loss.detach()), gradients, terms, after, run.margin)

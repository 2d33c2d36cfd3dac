"""A stepper of torch's own operations: masked dense steps on copies of all values."""

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from asni.errors import AsniError
from asni.pruning.inner_optimizer import without_parameters
from asni.training.kernels import Stepper


class Clock:
    """A second passes between any two looks, and less in a masked step."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


class MaskedSteps:
    """In float32, its bits are those of dense training; in float64, they differ by rounding.

    Model and optimiser are stale between two calls of `store`, so that whoever looks too early sees old values.
    """

    about = "masked steps for all layers"

    def __init__(
        self, model: nn.Module, optimizer: torch.optim.Optimizer, masks: Mapping[str, Tensor], dtype: torch.dtype
    ):
        self.model, self.optimizer, self.dtype = model, optimizer, dtype
        self.masks = {name: mask.clone() for name, mask in masks.items()}
        self.predicted, self.evaluated, self.takes, self.clock = 1.0, 0, 1.0, Clock()
        self.evaluates: Callable[[Tensor], Tensor] = lambda logits: logits
        self.network = deepcopy(model).to(dtype)
        self.values = {name: nn.Parameter(value.detach().clone()) for name, value in model.named_parameters()}
        self.stepping = without_parameters(optimizer)
        self.load()

    def step(self, images: Tensor, labels: Tensor, *, weight: float) -> Tensor:
        self.clock.now += self.takes - 1
        self.network.train()
        if not weight:
            images, labels = images.new_zeros(1, *images.shape[1:]), labels.new_zeros(1)
            self.network.eval()
        self._fill()
        loss = cross_entropy(self._forward(images), labels) * weight
        self.network.zero_grad()
        torch.autograd.backward(loss)
        for name, trained in self.network.named_parameters():
            assert trained.grad is not None
            gradient = trained.grad.to(torch.float32)
            if torch.distributed.is_initialized():
                torch.distributed.all_reduce(gradient)
                gradient /= torch.distributed.get_world_size()
            if name in self.masks:
                gradient.masked_fill_(~self.masks[name], 0.0)
            self.values[name].grad = gradient
        self._rate()
        self.stepping.step()
        self._round_buffers()
        return loss.detach().to(torch.float32)

    @torch.no_grad()
    def logits(self, images: Tensor) -> Tensor:
        self.evaluated += len(images)
        self.network.eval()
        self._fill()
        return self.evaluates(self._forward(images))

    @torch.no_grad()
    def store(self) -> None:
        for name, value in self.model.named_parameters():
            value.copy_(self.values[name])
            self.optimizer.state[value] = deepcopy(self.stepping.state[self.values[name]])
        self._copy_buffers(self.network, self.model)

    @torch.no_grad()
    def load(self) -> None:
        groups, own = [], {id(value): self.values[name] for name, value in self.model.named_parameters()}
        for group in self.optimizer.param_groups:
            groups.append({**group, "params": [own[id(value)] for value in group["params"]]})
        self.stepping.param_groups = groups
        for name, value in self.model.named_parameters():
            self.values[name].copy_(value)
            self.stepping.state[self.values[name]] = deepcopy(self.optimizer.state[value])
        self._copy_buffers(self.model, self.network)

    def _forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.network(images.contiguous(memory_format=torch.channels_last).to(self.dtype))
        return logits

    @torch.no_grad()
    def _fill(self) -> None:
        for name, value in self.network.named_parameters():
            value.copy_(self.values[name])

    def _rate(self) -> None:
        for own, group in zip(self.stepping.param_groups, self.optimizer.param_groups, strict=True):
            own["lr"] = group["lr"]

    def _round_buffers(self) -> None:
        """A stepper that is made anew from stored values must go on with the same bits."""
        for buffer in self.network.buffers():
            if buffer.is_floating_point():
                buffer.copy_(buffer.to(torch.float32))

    def _copy_buffers(self, source: nn.Module, target: nn.Module) -> None:
        for buffer, value in zip(target.buffers(), source.buffers(), strict=True):
            buffer.copy_(value)


@dataclass
class Making:
    """Makes masked steps, or refuses to; `measured` is how many times as fast they are on its clock."""

    dtype: torch.dtype = torch.float32
    predicted: float = 4.0
    measured: float = 4.0
    evaluates: Callable[[Tensor], Tensor] = lambda logits: logits
    refuses: str = ""
    takes: float = 1.0
    clock: Clock = field(default_factory=Clock)
    asked: int = 0
    steppers: list[MaskedSteps] = field(default_factory=list)

    def __call__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        masks: Mapping[str, Tensor],
        *,
        batch_size: int,
        shape: tuple[int, ...],
        previous: Stepper | None = None,
    ) -> Stepper:
        self.asked += 1
        self.clock.now += self.takes - 1
        if self.refuses:
            raise AsniError(self.refuses)
        # A real one runs the network on random numbers.
        torch.rand(1)
        stepper = MaskedSteps(model, optimizer, masks, self.dtype)
        stepper.predicted = self.predicted
        stepper.clock, stepper.takes, stepper.evaluates = self.clock, 1 / self.measured, self.evaluates
        self.steppers.append(stepper)
        return stepper

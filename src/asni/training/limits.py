"""A recipe's budget: what a pruner keeps to, and how the finished network compares with it."""

from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Unpack

import torch
from lightning_fabric import Fabric
from torch import nn

from asni.errors import UsageError
from asni.pruning.costs import Budget
from asni.pruning.gradual import GradualMagnitude
from asni.pruning.layers import Layers
from asni.pruning.pruner import Pruner
from asni.recipes.sections import Pruning
from asni.training.processes import fail_together


class Stopwatch(Protocol):
    """Measures networks on this machine: what their layers take, and the finished one."""

    def latency_budget(
        self,
        model: nn.Module,
        example: torch.Tensor,
        *,
        milliseconds: float | None,
        speedup: float | None,
        threads: int,
        cache: Path,
        **layers: Unpack[Layers],
    ) -> Budget: ...

    def timed(self, model: nn.Module, example: torch.Tensor, *, threads: int) -> float: ...


@dataclass(frozen=True)
class Limits:
    """The budget in the `[pruning]` of a recipe, for images of a shape.

    What is measured is kept in a `folder` beside the runs: one that was stopped continues with the same tables.
    """

    pruning: Pruning
    shape: tuple[int, ...]
    stopwatch: Stopwatch | None
    fabric: Fabric
    folder: Path

    def of(self, model: nn.Module) -> dict[str, Any]:
        """Keyword arguments for a pruner of the model; empty without a budget."""
        pruning = self.pruning
        if pruning.macs is not None:
            return {"macs": pruning.macs, "example": (1, *self.shape)}
        if not self._is_time:
            return {}
        if self.stopwatch is None:
            raise UsageError("latency and speedup need the engine: train with `asni train`.")
        budget = None
        with fail_together(self.fabric):
            # Measured once, so that all processes prune alike.
            if self.fabric.is_global_zero:
                budget = self.stopwatch.latency_budget(
                    _on_the_cpu(model),
                    self._images,
                    milliseconds=pruning.latency,
                    speedup=pruning.speedup,
                    threads=pruning.threads_per_pass,
                    cache=self.folder,
                    **pruning.layers,
                )
        return {"budget": self.fabric.broadcast(budget)}

    def met(self, model: nn.Module, pruner: Pruner | None) -> dict[str, float]:
        """The milliseconds that were asked for, those that the tables predict for the masks, and those measured."""
        if not isinstance(pruner, GradualMagnitude) or pruner.goal is None or pruner.cost is None:
            return {}
        if not self._is_time or self.stopwatch is None:
            return {}
        budget = pruner.goal.budget
        got = self.stopwatch.timed(_on_the_cpu(model), self._images, threads=self.pruning.threads_per_pass)
        return {"asked_ms": budget.limit, "predicted_ms": pruner.cost, "got_ms": got, "dense_ms": budget.whole}

    @property
    def _is_time(self) -> bool:
        return self.pruning.latency is not None or self.pruning.speedup is not None

    @property
    def _images(self) -> torch.Tensor:
        return torch.zeros(self.pruning.images_per_pass, *self.shape)


def _on_the_cpu(model: nn.Module) -> nn.Module:
    """The model, or a copy of it: the engine runs on CPUs."""
    return model if all(weight.is_cpu for weight in model.parameters()) else deepcopy(model).cpu()

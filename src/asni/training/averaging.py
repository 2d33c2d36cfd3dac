"""The average of the weights over the last epoch of a round, once its masks are final."""

from collections.abc import Iterable
from itertools import islice

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import update_bn

SNAPSHOTS = 100
"""How many weights of an epoch are averaged, and how many batches give batch norm its statistics."""


class Average:
    """The mean of the weights that it is shown."""

    def __init__(self, steps: int):
        self.every = max(1, steps // SNAPSHOTS)
        self._count = 0
        self._sums: dict[str, Tensor] = {}

    @torch.no_grad()
    def add(self, model: nn.Module) -> None:
        self._count += 1
        for name, weight in model.named_parameters():
            # On the CPU: some devices have no float64.
            if name in self._sums:
                self._sums[name] += weight.cpu()
            else:
                self._sums[name] = weight.cpu().to(torch.float64, copy=True)

    @torch.no_grad()
    def write_to(self, model: nn.Module) -> bool:
        """Give the model the mean weights; returns whether there are any."""
        for name, weight in model.named_parameters():
            if self._count:
                weight.copy_(self._sums[name] / self._count)
        return self._count > 0


def renew_statistics(model: nn.Module, batches: Iterable[tuple[Tensor, Tensor]], device: torch.device) -> None:
    """Give batch norm the statistics of the weights that the model has now."""
    # A process may have no image of the last batch of an epoch.
    update_bn((images for images, _ in islice(batches, SNAPSHOTS) if len(images)), model, device)

"""How many threads are worth waking for a network."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from asni.sparse.steps import Steps

MULTIPLICATIONS_PER_THREAD = 10_000_000
"""In one step. With fewer, threads would wait for each other longer than they work."""


def useful_threads(steps: Steps, model: nn.Module, masks: Mapping[str, Tensor], items: int) -> int:
    """Torch's number of threads, or fewer for a small network."""
    weights = dict(model.named_parameters(remove_duplicate=False))
    multiplications = 0
    for step in steps.steps:
        if step.kind in ("conv", "linear"):
            name, (_, _, rows, columns) = step.parameters["weight"], steps.shapes[step.output]
            living = weights[name].numel() if name not in masks else int(masks[name].sum())
            multiplications += 3 * living * rows * columns * items
    return max(1, min(torch.get_num_threads(), multiplications // MULTIPLICATIONS_PER_THREAD))

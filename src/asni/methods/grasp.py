"""GraSP: keep the weights whose removal would reduce the gradient flow (Wang, Zhang and Grosse, 2020).

g = dL/dtheta_0, H = d2L/dtheta_0^2     on a few samples of each class, the outputs divided by a temperature
s = -theta_0 * (H g)
m = all but the largest of s, over all layers
train theta_0 * m

Compared with alecwangcq/GraSP (commit f17d87a): scores, masks and order of the images equal, with batch norm too
(tests/methods/official).
"""

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from asni.pruning import saliency
from asni.pruning.hold import Hold
from asni.pruning.masks import keep_largest

if TYPE_CHECKING:
    from asni.runs.run import Run
    from asni.training.trainer import Trainer

PER_CLASS = 10


def grasp(trainer: "Trainer") -> "Run":
    """One round of training with the mask chosen from ten images of each class."""

    def make_pruner(model: nn.Module, optimizer: torch.optim.Optimizer) -> Hold:
        images, labels = first_of_each_class(trainer, PER_CLASS)
        flow = saliency.grasp(model, images, labels, **trainer.recipe.pruning.layers)
        return Hold(model, optimizer, keep_largest(flow, trainer.keep, by=torch.neg))

    return trainer.train("grasp", make_pruner)


def first_of_each_class(trainer: "Trainer", count: int) -> tuple[Tensor, Tensor]:
    """The first `count` images of each class in training order, or all if there are fewer.

    They are sorted by class, unless there are too many to score in halves.
    """
    missing = dict.fromkeys(range(trainer.dataset.info.classes), count)
    chosen: list[tuple[Tensor, Tensor]] = []
    for images, labels in trainer.batches(epoch=0):
        for image, label in zip(images, labels, strict=True):
            if missing[int(label)]:
                missing[int(label)] -= 1
                chosen.append((image, label))
        if not any(missing.values()):
            break
    if len(chosen) <= saliency.MOST_IN_HALVES:
        chosen.sort(key=lambda pair: int(pair[1]))
    return torch.stack([image for image, _ in chosen]), torch.stack([label for _, label in chosen])

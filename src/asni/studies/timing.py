"""How long a training takes on this machine, from a few steps on random images of the right shape."""

import time
from collections.abc import Callable
from statistics import median

import torch
from torch import Tensor

from asni import networks
from asni.datasets import info_of
from asni.methods import VARIANTS
from asni.recipes import Recipe
from asni.training.evaluation import TEST_BATCH
from asni.training.optimizers import make_optimizer
from asni.training.processes import make_fabric
from asni.training.round import train_step

FIRST_IMAGES = 2
"""The fewest that batch norm takes."""

LONG_STEP = 0.25
MOST_STEPS = 20
MOST_SECONDS = 5.0


def seconds(recipe: Recipe) -> dict[str, float]:
    """The seconds of one step and of one evaluation, of a whole training, and of those of `asni investigate`.

    No step is pruned, and no data is read. Where a whole batch would take long, or much memory, fewer images are
    timed and the time is scaled.
    """
    info, training = info_of(recipe.dataset, recipe.dataset_options), recipe.training
    if training.threads is not None:
        torch.set_num_threads(training.threads)
    fabric = make_fabric()
    model = networks.build(recipe.network, info.shape, info.classes, recipe.network_options)
    networks.check_output(model, info.shape, info.classes)
    model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    network, optimizer = fabric.setup(model, make_optimizer(model, recipe))

    def batch(count: int) -> tuple[Tensor, Tensor]:
        return torch.randn(count, *info.shape), torch.randint(info.classes, (count,))

    def train(images: Tensor, labels: Tensor) -> None:
        float(train_step(fabric, network, optimizer, images, labels))

    @torch.no_grad()
    def evaluate(images: Tensor, labels: Tensor) -> None:
        moved = fabric.to_device(images.contiguous(memory_format=torch.channels_last))
        float(network(moved).sum())

    network.train()
    step = training.batch_size * _seconds_per_image(train, batch, training.batch_size)
    network.eval()
    evaluation = info.test * _seconds_per_image(evaluate, batch, min(TEST_BATCH, info.test))
    whole = training.epochs * (recipe.steps_per_epoch(info.train) * step + evaluation)
    return {"step": step, "evaluation": evaluation, "training": whole, "investigate": len(VARIANTS) * whole}


def _seconds_per_image(
    work: Callable[[Tensor, Tensor], None], batch: Callable[[int], tuple[Tensor, Tensor]], most: int
) -> float:
    """The median of a few calls, after larger and larger ones have warmed up the machine."""
    count = min(FIRST_IMAGES, most)
    _timed(work, *batch(count))
    while _timed(work, *batch(count)) < LONG_STEP and count < most:
        count = min(2 * count, most)
    images, labels = batch(count)
    taken: list[float] = []
    while not taken or (len(taken) < MOST_STEPS and sum(taken) < MOST_SECONDS):
        taken.append(_timed(work, images, labels))
    return median(taken) / count


def _timed(work: Callable[[Tensor, Tensor], None], images: Tensor, labels: Tensor) -> float:
    started = time.monotonic()
    work(images, labels)
    return time.monotonic() - started

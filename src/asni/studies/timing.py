"""How long a training takes on this machine, from a few steps on random images of the right shape."""

import time
from collections.abc import Callable, Sequence
from functools import partial

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

FIRST_IMAGES = 8
"""Enough to keep a processor busy: the time of fewer says little about a batch."""

LONG_STEP = 0.5
"""A step that takes longer is not made any larger."""

LEAST_CALLS, MOST_CALLS, MOST_SECONDS = 3, 20, 5.0


def seconds(recipe: Recipe) -> dict[str, float]:
    """The seconds of one step and of one evaluation, of a whole training, and of those of `asni investigate`.

    No step is pruned, and no data is read. Where a whole batch would take long, or much memory, fewer images are
    timed, and the time is scaled: `images` is how many of a batch were.
    """
    info, training = info_of(recipe.dataset, recipe.dataset_options), recipe.training
    if training.threads is not None:
        torch.set_num_threads(training.threads)
    fabric = make_fabric()
    model = networks.build(recipe.network, info.shape, info.classes, recipe.network_options)
    networks.check_output(model, info.shape, info.classes)
    model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    network, optimizer = fabric.setup(model, make_optimizer(model, recipe))

    def train(images: Tensor) -> None:
        float(train_step(fabric, network, optimizer, images, torch.randint(info.classes, (len(images),))))

    @torch.no_grad()
    def evaluate(images: Tensor) -> None:
        moved = fabric.to_device(images.contiguous(memory_format=torch.channels_last))
        float(network(moved).sum())

    def update() -> None:
        optimizer.step()
        float(next(network.parameters()).detach().sum())

    network.train()
    images, taken = _largest(train, info.shape, training.batch_size)
    step = scaled(taken, _least_seconds(update), training.batch_size / images)
    network.eval()
    tested, taken = _largest(evaluate, info.shape, min(TEST_BATCH, info.test))
    evaluation = scaled(taken, 0.0, info.test / tested)
    epoch = recipe.steps_per_epoch(info.train) * step + evaluation
    return {
        "images": images,
        "step": step,
        "evaluation": evaluation,
        "training": training.epochs * epoch,
        "investigate": sum(recipe.training_of(variant).epochs for variant in VARIANTS) * epoch,
    }


def scaled(seconds: float, fixed: float, times: float) -> float:
    """The time of so many times the images, if `fixed` of the `seconds` do not depend on them.

    >>> scaled(3.0, 1.0, 10), scaled(1.0, 1.5, 10), scaled(1.0, 1.5, 1)
    (21.0, 1.0, 1.0)
    """
    return seconds + max(seconds - fixed, 0.0) * (times - 1)


def _largest(work: Callable[[Tensor], None], shape: Sequence[int], most: int) -> tuple[int, float]:
    """How many images, up to `most`, do not take long, and their time; smaller calls warm up the machine."""
    count = min(FIRST_IMAGES, most)
    work(images := torch.randn(count, *shape))
    while count < most and _seconds(partial(work, images)) < LONG_STEP:
        count = min(2 * count, most)
        images = torch.randn(count, *shape)
    return count, _least_seconds(partial(work, images))


def _least_seconds(work: Callable[[], None]) -> float:
    """The shortest of a few calls: the one that other programs disturbed the least."""
    taken: list[float] = []
    while len(taken) < LEAST_CALLS or (len(taken) < MOST_CALLS and sum(taken) < MOST_SECONDS):
        taken.append(_seconds(work))
    return min(taken)


def _seconds(work: Callable[[], None]) -> float:
    started = time.monotonic()
    work()
    return time.monotonic() - started

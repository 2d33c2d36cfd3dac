"""Images per second of CIFAR-10 batches (cropped, flipped, normalised), compared with a DataLoader with Pillow."""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from asni import datasets, networks, recipes
from asni.datasets.order import epoch_order
from asni.training.optimizers import make_optimizer
from asni.training.processes import make_fabric
from asni.training.round import train_step
from benchmarks.timing import seconds

BATCH = 128
# The DataLoader's workers prefetch while asni is measured; over many batches, that is a small part of the time.
OUR_STEPS, THEIR_STEPS = 350, 40
MEAN, STD = torch.tensor([125.3, 123.0, 113.9]).view(3, 1, 1), torch.tensor([63.0, 62.1, 66.7]).view(3, 1, 1)


def run() -> dict[str, float]:
    """The speed-up in images per second, and the fraction of a training step spent on its batch."""
    torch.set_num_threads(1)
    ours = _stream(lambda: _batches(BATCH))
    theirs = _stream(lambda: iter(_loader()))
    taken = seconds(
        {"asni": lambda: _draw(ours, OUR_STEPS), "DataLoader": lambda: _draw(theirs, THEIR_STEPS)}, rounds=5
    )
    conv2 = recipes.load("cifar10-conv2")
    its_batches, step = _stream(lambda: _batches(conv2.training.batch_size)), _conv2_step(conv2)
    shares = seconds({"batches": lambda: _draw(its_batches, OUR_STEPS), "step": step}, rounds=15)
    return {
        "images a second / per-image DataLoader with 2 workers, CIFAR-10": (taken["DataLoader"] / THEIR_STEPS)
        / (taken["asni"] / OUR_STEPS),
        "input / training step, cifar10-conv2": shares["batches"] / OUR_STEPS / shares["step"],
    }


def _stream(epoch: Callable[[], Iterator[Any]]) -> Iterator[Any]:
    """Endless epochs, so that the cost of starting one is spread over all its batches."""
    while True:
        yield from epoch()


def _draw(batches: Iterator[Any], steps: int) -> None:
    for _ in islice(batches, steps):
        pass


def _batches(size: int) -> Iterator[tuple[Tensor, Tensor]]:
    dataset = datasets.load("cifar10")
    images = dataset.info.train
    order = epoch_order(images, size, -(-images // size), seed=0, epoch=0)
    return dataset.train_batches(order, size, augment="crop-flip", seed=0, epoch=0)


class _Pictures(Dataset[tuple[Tensor, int]]):
    """One image at a time through Pillow, as most scripts load CIFAR-10; the pixels are random."""

    def __init__(self) -> None:
        self.pixels = np.random.default_rng(0).integers(0, 256, (50_000, 32, 32, 3), dtype=np.uint8)

    def __len__(self) -> int:
        return len(self.pixels)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        picture = ImageOps.expand(Image.fromarray(self.pixels[index]), 4)
        row, column = (int(offset) for offset in torch.randint(9, (2,)))
        picture = picture.crop((column, row, column + 32, row + 32))
        if torch.rand(()) < 0.5:
            picture = ImageOps.mirror(picture)
        image = torch.from_numpy(np.array(picture)).permute(2, 0, 1).float()
        return (image - MEAN) / STD, index % 10


def _loader() -> DataLoader[tuple[Tensor, int]]:
    return DataLoader(_Pictures(), batch_size=BATCH, shuffle=True, num_workers=2)


def _conv2_step(recipe: recipes.Recipe) -> Callable[[], Tensor]:
    fabric, network = make_fabric("cpu"), networks.build("conv2", (3, 32, 32), 10)
    network = network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    model, optimizer = fabric.setup(network, make_optimizer(network, recipe))
    size = recipe.training.batch_size
    images, labels = torch.randn(size, 3, 32, 32), torch.randint(10, (size,))
    return lambda: train_step(fabric, model, optimizer, images, labels)

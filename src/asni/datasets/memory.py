"""A dataset that fits in memory: stored as it comes, augmented and normalised many images at a time."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from asni.datasets.augmentation import CropFlip
from asni.datasets.info import Info
from asni.datasets.normalisation import Normalisation, Pixels
from asni.datasets.order import shares
from asni.errors import AsniError, unknown

# Batches are prepared together up to this many bytes of floats: fewer, larger operations that still fit a core's cache.
CHUNK_BYTES = 1 << 20


@dataclass(frozen=True)
class Arrays:
    """Images (count, channels, height, width) and labels (count), for training and test.

    The published datasets are all uint8.
    """

    train_images: Pixels
    train_labels: NDArray[np.integer]
    test_images: Pixels
    test_labels: NDArray[np.integer]


class InMemory:
    """A dataset in memory; images are normalised batch by batch."""

    def __init__(self, arrays: Arrays, classes: int, normalised: Normalisation) -> None:
        _check(arrays, classes)
        channels, height, width = arrays.train_images.shape[1:]
        self.info = Info((channels, height, width), classes, len(arrays.train_labels), len(arrays.test_labels))
        self._train = arrays.train_images, arrays.train_labels.astype(np.int64)
        self._test = arrays.test_images, arrays.test_labels.astype(np.int64)
        self._normalised = normalised

    def train_batches(
        self,
        order: Tensor,
        batch_size: int,
        *,
        augment: str | None,
        seed: int,
        epoch: int,
        start: int = 0,
        rank: int = 0,
        world: int = 1,
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """See `Dataset`; `augment` is None or "crop-flip"."""
        if augment not in (None, "crop-flip"):
            raise unknown("augmentation of this dataset", augment, ["crop-flip"])
        draws = CropFlip.draw(len(order), seed=seed, epoch=epoch) if augment else None
        parts = shares(len(order), batch_size, start=start, rank=rank, world=world)
        return self._batches(self._train, order.numpy(), parts, batch_size, draws)

    def test_batches(self, batch_size: int, *, rank: int = 0, world: int = 1) -> Iterator[tuple[Tensor, Tensor]]:
        """See `Dataset`."""
        parts = shares(self.info.test, batch_size, rank=rank, world=world)
        return self._batches(self._test, np.arange(self.info.test), parts, batch_size, None)

    def _batches(
        self,
        data: tuple[Pixels, NDArray[np.int64]],
        order: NDArray[np.int64],
        parts: Iterator[range],
        batch_size: int,
        draws: CropFlip | None,
    ) -> Iterator[tuple[Tensor, Tensor]]:
        images, labels = data
        batches_per_chunk = max(1, CHUNK_BYTES // (4 * images[0].size * batch_size))
        while chunk := list(islice(parts, batches_per_chunk)):
            positions = np.concatenate([np.arange(part.start, part.stop) for part in chunk])
            pixels = images[order[positions]]
            if draws is not None:
                pixels = draws.apply(pixels, positions)
            floats, numbers = self._normalised(pixels), torch.from_numpy(labels[order[positions]])
            sizes = [len(part) for part in chunk]
            yield from zip(floats.split_with_sizes(sizes), numbers.split_with_sizes(sizes), strict=True)


def _check(arrays: Arrays, classes: int) -> None:
    for part, images, labels in (
        ("training", arrays.train_images, arrays.train_labels),
        ("test", arrays.test_images, arrays.test_labels),
    ):
        if len(images) != len(labels):
            raise AsniError(f"the {part} set has {len(images)} images but {len(labels)} labels")
        if not len(labels):
            raise AsniError(f"the {part} set is empty")
        if labels.max() >= classes or labels.min() < 0:
            at = int(labels.argmax() if labels.max() >= classes else labels.argmin())
            raise AsniError(f"the {part} set has label {labels[at]} at image {at}; labels must be 0 to {classes - 1}")
    if arrays.train_images.shape[1:] != arrays.test_images.shape[1:]:
        raise AsniError(
            f"training images are {arrays.train_images.shape[1:]} but test images {arrays.test_images.shape[1:]}"
        )

"""The interface of a dataset: its sizes, and batches of normalised images with their labels."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from asni.errors import unknown

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Info:
    """Sizes of a dataset: the shape of one image (channels, height, width), classes, training and test images."""

    shape: tuple[int, int, int]
    classes: int
    train: int
    test: int


INFO = {
    "digits": Info((1, 8, 8), 10, 1_500, 297),
    "mnist": Info((1, 28, 28), 10, 60_000, 10_000),
    "cifar10": Info((3, 32, 32), 10, 50_000, 10_000),
    "imagenet": Info((3, 224, 224), 1_000, 1_281_167, 50_000),
}
"""The published sizes, available before anything is fetched."""


def published_info(name: str) -> Info:
    """The published sizes of a dataset, by its name."""
    if name not in INFO:
        raise unknown("dataset", name, [*INFO, "./folder", "file.npz", "package.module:function"])
    return INFO[name]


class Dataset(Protocol):
    """A source of batches `(images, labels)`: float32 normalised images and int64 labels.

    With `world` processes, batches are global and `rank` gets a contiguous share of each (`asni.datasets.order.share`).
    A share may be empty if the last batch is smaller than `world`.
    """

    @property
    def info(self) -> Info:
        """The sizes of the actual data."""
        ...

    def train_batches(
        self,
        order: "Tensor",
        batch_size: int,
        *,
        augment: str | None,
        seed: int,
        epoch: int,
        start: int = 0,
        rank: int = 0,
        world: int = 1,
    ) -> "Iterator[tuple[Tensor, Tensor]]":
        """Batch k is `order[k * batch_size : (k + 1) * batch_size]`; yields from batch `start` on."""
        ...

    def test_batches(self, batch_size: int, *, rank: int = 0, world: int = 1) -> "Iterator[tuple[Tensor, Tensor]]":
        """Every test image once, in dataset order."""
        ...

import tracemalloc
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from asni.datasets import memory
from asni.datasets.augmentation import CropFlip
from asni.datasets.memory import Arrays, InMemory
from asni.datasets.normalisation import Normalisation
from asni.errors import AsniError, UsageError

ORDER = torch.arange(23).flip(0)


def pictures(count: int, *, first: int = 0, size: int = 5) -> NDArray[np.uint8]:
    """Images in which every pixel differs from its neighbours, and every image from the others."""
    values = np.arange(count * 2 * size * size) + 1 + 7 * first
    return (values % 251).astype(np.uint8).reshape(count, 2, size, size)


def made(**replaced: Any) -> InMemory:
    labels = np.arange(23, dtype=np.uint8) % 10
    parts = {
        "train_images": pictures(23),
        "train_labels": labels,
        "test_images": pictures(7, first=23),
        "test_labels": labels[:7],
    }
    return InMemory(Arrays(**(parts | replaced)), 10, Normalisation([10, 20], [2, 4], white=1))


def train(dataset: InMemory, **options: Any) -> list[tuple[Tensor, Tensor]]:
    return list(dataset.train_batches(ORDER, 4, **{"augment": None, "seed": 0, "epoch": 0} | options))


def test_batches_are_normalised_by_channel_and_follow_the_order() -> None:
    batches = train(made())
    assert [len(labels) for _, labels in batches] == [4, 4, 4, 4, 4, 3]
    images, labels = torch.cat([x for x, _ in batches]), torch.cat([y for _, y in batches])
    assert (images.dtype, labels.dtype) == (torch.float32, torch.int64)
    bytes_in_order = torch.from_numpy(pictures(23)).flip(0).float()
    expected = (bytes_in_order - torch.tensor([10.0, 20.0]).view(2, 1, 1)) / torch.tensor([2.0, 4.0]).view(2, 1, 1)
    torch.testing.assert_close(images, expected)
    assert labels.tolist() == [number % 10 for number in range(22, -1, -1)]


def test_the_test_set_comes_whole_and_in_order() -> None:
    batches = list(made().test_batches(3))
    assert [labels.tolist() for _, labels in batches] == [[0, 1, 2], [3, 4, 5], [6]]


@pytest.mark.parametrize("augment", [None, "crop-flip"])
def test_a_resumed_epoch_continues_with_the_same_batches(augment: str | None) -> None:
    whole, rest = train(made(), augment=augment), train(made(), augment=augment, start=2)
    assert len(rest) == 4
    assert all(torch.equal(a, b) for (a, _), (b, _) in zip(whole[2:], rest, strict=True))


@pytest.mark.parametrize("augment", [None, "crop-flip"])
@pytest.mark.parametrize("world", [2, 3])
def test_the_ranks_together_see_the_batches_of_one_process(augment: str | None, world: int) -> None:
    ranks = [train(made(), augment=augment, rank=rank, world=world) for rank in range(world)]
    for whole, *parts in zip(train(made(), augment=augment), *ranks, strict=True):
        assert torch.equal(whole[0], torch.cat([images for images, _ in parts]))
        assert torch.equal(whole[1], torch.cat([labels for _, labels in parts]))


def test_how_many_batches_are_prepared_together_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    together = train(made(), augment="crop-flip")
    monkeypatch.setattr(memory, "CHUNK_BYTES", 1)
    alone = train(made(), augment="crop-flip")
    assert all(torch.equal(a, b) for (a, _), (b, _) in zip(together, alone, strict=True))


def test_each_position_of_the_epoch_has_its_own_draw() -> None:
    draws = CropFlip.draw(23, seed=0, epoch=0)
    expected = draws.apply(pictures(23)[::-1], np.arange(23))
    images = torch.cat([images for images, _ in train(made(), augment="crop-flip")])
    assert torch.equal(images, Normalisation([10, 20], [2, 4], white=1)(expected))


def test_augmentation_depends_on_seed_and_epoch() -> None:
    first = train(made(), augment="crop-flip")
    for other in (train(made(), augment="crop-flip", seed=1), train(made(), augment="crop-flip", epoch=1)):
        assert not all(torch.equal(a, b) for (a, _), (b, _) in zip(first, other, strict=True))


def test_an_unknown_augmentation_is_refused_before_the_first_batch() -> None:
    with pytest.raises(UsageError, match="crop-flip"):
        made().train_batches(ORDER, 4, augment="crop-flop", seed=0, epoch=0)


@pytest.mark.parametrize(
    ("replaced", "message"),
    [
        ({"train_labels": np.full(23, 10, np.uint8)}, r"training set.* 10 .*image 0\b.* 9\b"),
        ({"test_images": pictures(0), "test_labels": np.zeros(0, np.uint8)}, "test set.*empty"),
        ({"train_labels": np.zeros(22, np.uint8)}, "training set.* 23 images.* 22 labels"),
        ({"test_images": pictures(7, size=6)}, r"\(2, 5, 5\).*\(2, 6, 6\)"),
    ],
)
def test_data_that_cannot_be_trained_on_is_refused(replaced: dict[str, Any], message: str) -> None:
    with pytest.raises(AsniError, match=message):
        made(**replaced)


def test_a_long_epoch_takes_no_memory_for_batches_that_are_not_read_yet() -> None:
    dataset, order = made(), torch.zeros(300_000, dtype=torch.int64)
    tracemalloc.start()
    try:
        next(dataset.train_batches(order, 1, augment=None, seed=0, epoch=0))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 16 << 20

"""ImageNet-1K (ILSVRC 2012), read in place from the user's folder; its terms do not allow us to download it."""

import json
import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from asni.datasets.cache import cache_folder
from asni.datasets.imagenet_index import LAYOUT, PUBLISHED_CLASSES, Split, find_index
from asni.datasets.info import Info
from asni.datasets.normalisation import Normalisation
from asni.datasets.order import shares
from asni.datasets.pictures import SIZE, read_picture
from asni.errors import AsniError, unknown
from asni.files import expanded, read_bounded, write_text

log = logging.getLogger(__name__)

MOST_WORKERS = 16
MOST_NOTE_BYTES = 1 << 16


def get(source: Path | None = None) -> Path:
    """Check the folder `source`, or the one given before, and remember it; the images are not copied."""
    if source is None:
        return load().folder
    folder = ImageNet(expanded(source, "--from").resolve()).folder
    try:
        write_text(_note(), json.dumps({"folder": str(folder)}))
    except AsniError as error:
        raise AsniError(f"{error} Set ASNI_DATA to another folder.") from error
    return folder


def load() -> "ImageNet":
    """Load ImageNet from the folder that was given to `get`, else from `ASNI_DATA/imagenet`."""
    try:
        folder = Path(json.loads(read_bounded(_note(), MOST_NOTE_BYTES))["folder"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        if (cache_folder("imagenet") / "train").is_dir():
            return ImageNet(cache_folder("imagenet"))
        raise AsniError(
            f"ImageNet was not found, and its terms do not allow an automatic download. Request ILSVRC 2012 at "
            f"image-net.org, unpack it as {LAYOUT}, then run: asni data get imagenet --from FOLDER"
        ) from error
    return ImageNet(folder)


def _note() -> Path:
    return cache_folder("imagenet") / "location.json"


class ImageNet:
    """ImageNet, read by worker processes; the augmentation of an image depends on its position, not on the workers."""

    def __init__(self, folder: Path, workers: int | None = None) -> None:
        index = find_index(folder, cache_folder("imagenet") / "index.json")
        if len(index.classes) != PUBLISHED_CLASSES:
            log.warning("%s has %d classes, not ImageNet's 1,000", folder, len(index.classes))
        self.folder = folder
        self.info = Info((3, SIZE, SIZE), len(index.classes), len(index.train.labels), len(index.test.labels))
        self._train, self._test = index.train, index.test
        self._workers = _default_workers() if workers is None else workers
        self._normalised = Normalisation((0.485, 0.456, 0.406), (0.229, 0.224, 0.225), white=255)
        self._reported: set[str] = set()

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
        """See `Dataset`; `augment` is None or "resized-crop-flip". A broken image is reported once and skipped."""
        if augment not in (None, "resized-crop-flip"):
            raise unknown("augmentation of this dataset", augment, ["resized-crop-flip"])
        parts = list(shares(len(order), batch_size, start=start, rank=rank, world=world))
        reader = _Reader(self.folder, self._train, order, parts, (seed, epoch) if augment else None)
        return self._batches(reader, self._report)

    def test_batches(self, batch_size: int, *, rank: int = 0, world: int = 1) -> Iterator[tuple[Tensor, Tensor]]:
        """See `Dataset`. A broken image is an error: skipping it would change the test set."""
        parts = list(shares(self.info.test, batch_size, rank=rank, world=world))
        return self._batches(_Reader(self.folder, self._test, torch.arange(self.info.test), parts, None), _refuse)

    def _batches(self, reader: "_Reader", on_broken: Callable[[list[str]], None]) -> Iterator[tuple[Tensor, Tensor]]:
        # A separate generator: the loader draws a seed for its workers, which must not advance the global generator.
        loader = DataLoader(
            reader,
            batch_size=None,
            num_workers=self._workers,
            generator=torch.Generator(),
        )
        for pixels, labels, broken in loader:
            on_broken(broken)
            if broken and not len(labels):
                raise AsniError(f"no image of a batch could be read; {broken[0]}")
            yield self._normalised(pixels.numpy()), labels

    def _report(self, broken: list[str]) -> None:
        for message in broken:
            if message not in self._reported:
                log.warning("%s; training continues without it", message)
                self._reported.add(message)


class _Reader(torch.utils.data.Dataset[tuple[Tensor, Tensor, list[str]]]):
    """Item k is a whole batch: its images as bytes, their labels, and a message for each image that was skipped."""

    def __init__(
        self, folder: Path, split: Split, order: Tensor, parts: list[range], draws: tuple[int, int] | None
    ) -> None:
        self._folder, self._split, self._order, self._parts, self._draws = folder, split, order, parts, draws

    def __len__(self) -> int:
        return len(self._parts)

    def __getitem__(self, batch: int) -> tuple[Tensor, Tensor, list[str]]:
        pictures, labels, broken = [], [], []
        for position in self._parts[batch]:
            sample = int(self._order[position])
            path = self._folder / os.fsdecode(self._split.paths[sample])
            random = np.random.default_rng((*self._draws, 1, position)) if self._draws else None
            try:
                pictures.append(torch.from_numpy(read_picture(path, random)))
                labels.append(int(self._split.labels[sample]))
            except AsniError as error:
                broken.append(str(error))
        pixels = torch.stack(pictures) if pictures else torch.empty((0, 3, SIZE, SIZE), dtype=torch.uint8)
        return pixels, torch.tensor(labels, dtype=torch.int64), broken


def _refuse(broken: list[str]) -> None:
    if broken:
        raise AsniError(f"{broken[0]}; replace it with an intact copy")


def _default_workers() -> int:
    """The CPUs of this machine, divided among the processes that torchrun started on it."""
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(MOST_WORKERS, processors // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))))

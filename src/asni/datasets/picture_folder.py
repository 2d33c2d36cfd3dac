"""A user's own folder of pictures: `train/CLASS/*.png` and `test/CLASS/*.png`, or `val` instead of `test`.

Labels are the positions of the classes among the sorted folders of `train`.
"""

import hashlib
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from pydantic import BaseModel, Field

from asni.datasets.info import Dataset, Info
from asni.datasets.own_arrays import in_memory
from asni.datasets.pictures import decoded
from asni.display import on_stderr
from asni.errors import UsageError, is_printable, shown
from asni.recipes.checking import checked
from asni.recipes.sections import STRICT

ENDINGS = (".png", ".jpg", ".jpeg")
OTHER_ENDINGS = (".bmp", ".gif", ".tif", ".tiff", ".webp")
GREY = ("1", "L", "LA", "La")
DEEP = ("I", "F", "I;16", "I;16B", "I;16L", "I;16N")
LAYOUT = "train/CLASS/*.png and test/CLASS/*.png (or .jpg)"
MOST_BYTES = 1 << 30
MOST_SIDE = 65_535
"""Of a JPEG."""


class FolderOptions(BaseModel):
    """The `dataset_options` of a folder, for pictures that differ in size or colour."""

    model_config = STRICT

    size: list[Annotated[int, Field(ge=1, le=MOST_SIDE)]] | None = Field(
        default=None, min_length=2, max_length=2, description="resize all to [height, width]"
    )
    channels: Literal[1, 3] | None = Field(default=None, description="1: convert all to grey, 3: to RGB")


class PictureFolder:
    """All pictures have the size and the colours of the first one, unless the options say to convert them."""

    def __init__(self, path: Path, options: Mapping[str, Any]) -> None:
        self.path, self.options = path, checked(FolderOptions, options, f"dataset_options for {path}")
        if not path.is_dir():
            raise UsageError(f"no folder '{path}' for the dataset. It must hold {LAYOUT}.")
        self.test_name = "test" if (path / "test").is_dir() else "val"
        self.train, self.test = self._by_class("train"), self._by_class(self.test_name)
        if len(self.train) < 2:
            raise UsageError(f"{path / 'train'} has {len(self.train)} class folders; it needs two or more: {LAYOUT}.")
        if other := sorted(self.test.keys() - self.train.keys()):
            raise UsageError(f"{path / self.test_name} has the class '{other[0]}', but {path / 'train'} has not.")

    @cached_property
    def info(self) -> Info:
        first = _decoded(next(iter(self.train.values()))[0])
        height, width = self.options.size or (first.height, first.width)
        train, test = (sum(map(len, part.values())) for part in (self.train, self.test))
        return Info((self.options.channels or _channels(first), height, width), len(self.train), train, test)

    @property
    def checksum(self) -> str:
        """A checksum of the names and sizes of all pictures."""
        total = hashlib.sha256()
        for part in (self.train, self.test):
            for picture in (picture for pictures in part.values() for picture in pictures):
                total.update(f"{picture.relative_to(self.path).as_posix()}\0{picture.stat().st_size}\0".encode())
        return total.hexdigest()

    def load(self) -> Dataset:
        info = self.info
        needed = (info.train + info.test) * int(np.prod(info.shape))
        if needed > MOST_BYTES:
            raise UsageError(
                f"the {info.train + info.test:,} pictures of {self.path} take {needed / 2**30:.1f} GiB in memory, "
                f"more than {MOST_BYTES / 2**30:g} GiB. Make them smaller by dataset_options = {{ size = [h, w] }}, "
                "or give a package.module:function that returns an asni.datasets.Dataset."
            )
        return in_memory(str(self.path), {**self._arrays("train", self.train), **self._arrays("test", self.test)})[0]

    def _by_class(self, part: str) -> dict[str, list[Path]]:
        folder = self.path / part
        if not folder.is_dir():
            wanted = "train" if part == "train" else "test or val"
            raise UsageError(f"{self.path} has no folder {wanted}; it must hold {LAYOUT}.")
        classes = [entry for entry in sorted(folder.iterdir()) if entry.is_dir() and not entry.name.startswith(".")]
        return {entry.name: _pictures(entry) for entry in _named(classes)}

    def _arrays(self, part: str, pictures: dict[str, list[Path]]) -> dict[str, NDArray[Any]]:
        positions = {name: position for position, name in enumerate(self.train)}
        labels = [positions[name] for name, paths in pictures.items() for _ in paths]
        images = np.empty((len(labels), *self.info.shape), np.uint8)
        paths = [path for paths in pictures.values() for path in paths]
        for number, path in enumerate(on_stderr().track(paths, f"{part}: reading pictures")):
            images[number] = self._pixels(path)
        return {f"{part}_images": images, f"{part}_labels": np.array(labels)}

    def _pixels(self, path: Path) -> NDArray[np.uint8]:
        picture, (channels, height, width) = _decoded(path), self.info.shape
        if self.options.channels is None and _channels(picture) != channels:
            colours = {1: "grey", 3: "in colour"}
            raise UsageError(
                f"{path} is {colours[_channels(picture)]}, but the first picture of {self.path} is "
                f"{colours[channels]}. Convert all by dataset_options = {{ channels = 3 }}, or 1 for grey."
            )
        if self.options.size is None and picture.size != (width, height):
            raise UsageError(
                f"{path} has {picture.height}x{picture.width} pixels, but the first picture of {self.path} has "
                f"{height}x{width}. Resize all by dataset_options = {{ size = [{height}, {width}] }}."
            )
        same_colours = picture.convert("L" if channels == 1 else "RGB")
        if picture.size != (width, height):
            same_colours = same_colours.resize((width, height), Image.Resampling.BILINEAR)
        return np.asarray(same_colours).reshape(height, width, channels).transpose(2, 0, 1)


def _named(paths: list[Path]) -> list[Path]:
    """Classes or pictures. Messages name them and a run records them, so that every name must be text of one line."""
    if odd := [path for path in paths if not is_printable(path.name)]:
        raise UsageError(f"{odd[0].parent}: the name {odd[0].name!r} is not printable text. Rename it.")
    return paths


def _pictures(folder: Path) -> list[Path]:
    names = sorted(folder.iterdir())
    if other := [path for path in names if path.suffix.lower() in OTHER_ENDINGS]:
        raise UsageError(f"{shown(other[0])} is neither a PNG nor a JPEG. Convert it.")
    found = [path for path in names if path.suffix.lower() in ENDINGS and not path.name.startswith(".")]
    if not found:
        raise UsageError(f"the class folder {folder} has no pictures ({', '.join(ENDINGS)}).")
    return _named(found)


def _decoded(path: Path) -> Image.Image:
    picture = decoded(path)
    if picture.mode in DEEP:
        raise UsageError(f"{path} has more than 8 bits per pixel (mode {picture.mode}); convert it to 8 bits.")
    return picture


def _channels(picture: Image.Image) -> int:
    return 1 if picture.mode in GREY else 3

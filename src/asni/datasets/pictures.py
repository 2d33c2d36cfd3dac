"""Reads image files: whole, or as 224x224 RGB bytes whatever their size and colour mode."""

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from asni.errors import AsniError, shown
from asni.files import regular_size

SIZE = 224
RESIZED = 256
TRIES = 10

Box = tuple[int, int, int, int]


def read_picture(path: Path, random: np.random.Generator | None) -> NDArray[np.uint8]:
    """Image bytes (3, 224, 224): a random resized crop and flip with `random`, else a resized centre crop."""
    # Some files of ImageNet are grey or CMYK, and one is a PNG with a JPEG's name.
    picture = decoded(path).convert("RGB")
    box = centre_box(*picture.size) if random is None else random_box(*picture.size, random)
    pixels = np.asarray(picture.resize((SIZE, SIZE), Image.Resampling.BILINEAR, box=box))
    if random is not None and random.random() < 0.5:
        pixels = pixels[:, ::-1]
    return np.ascontiguousarray(pixels.transpose(2, 0, 1))


def decoded(path: Path) -> Image.Image:
    """The picture in a PNG or JPEG file, in its own size and colour mode."""
    try:
        regular_size(path)
        with opened(path, "JPEG", "PNG") as picture:
            picture.load()
            return picture
    except Exception as error:  # a damaged picture may raise anything
        reason = (isinstance(error, OSError) and error.strerror) or shown(error)
        raise AsniError(f"{shown(path)} is damaged, or neither a JPEG nor a PNG ({reason})") from error


@contextmanager
def opened(file: Path | IO[bytes], *formats: str) -> Iterator[Image.Image]:
    """A picture whose header is read. More than Pillow's 89 million pixels, for which it only warns, are an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        with Image.open(file, formats=formats) as picture:
            yield picture


def centre_box(width: int, height: int) -> tuple[float, float, float, float]:
    """The box that a resize of the shorter side to 256 and a centre crop of 224x224 would keep.

    >>> centre_box(256, 512)
    (16.0, 144.0, 240.0, 368.0)
    """
    side = min(width, height) * SIZE / RESIZED
    left, top = (width - side) / 2, (height - side) / 2
    return left, top, left + side, top + side


def random_box(width: int, height: int, random: np.random.Generator) -> Box:
    """A box of 8 to 100 % of the area with an aspect ratio of 3/4 to 4/3; if none fits, the largest in the centre."""
    for _ in range(TRIES):
        area = width * height * random.uniform(0.08, 1)
        ratio = math.exp(random.uniform(math.log(3 / 4), math.log(4 / 3)))
        across, down = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < across <= width and 0 < down <= height:
            left, top = int(random.integers(0, width - across + 1)), int(random.integers(0, height - down + 1))
            return left, top, left + across, top + down
    across, down = min(width, round(height * 4 / 3)), min(height, round(width * 4 / 3))
    left, top = (width - across) // 2, (height - down) // 2
    return left, top, left + across, top + down

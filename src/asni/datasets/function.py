"""A user's own function that returns data, given as `package.module:function`."""

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asni.datasets.info import Dataset, Info
from asni.datasets.own_arrays import NAMES, in_memory
from asni.errors import UsageError
from asni.recipes.own_code import article, described, imported

RETURNS = f"({', '.join(NAMES)}), or an asni.datasets.Dataset"


class Function:
    """Called as `function(**options)`, once in a process; returns four arrays or tensors, or a `Dataset`."""

    def __init__(self, name: str, options: Mapping[str, Any]) -> None:
        self.name, self.options = name, json.dumps(options, sort_keys=True)

    @property
    def info(self) -> Info:
        return self.load().info

    @property
    def checksum(self) -> str | None:
        """A checksum of all arrays. A `Dataset` has none: only its sizes are known."""
        return _called(self.name, self.options)[1]

    def load(self) -> Dataset:
        return _called(self.name, self.options)[0]


@lru_cache(maxsize=1)
def _called(name: str, options: str) -> tuple[Dataset, str | None]:
    """Cached: a study needs the sizes, the checksum and the data several times."""
    from asni.datasets.published import digest

    function = imported("dataset", name, f"a function that returns {RETURNS}")
    try:
        returned = function(**json.loads(options))
    except Exception as error:
        raise UsageError(f"dataset '{name}' failed when called with {options}: {described(error)}") from error
    if _is_dataset(returned):
        return returned, None  # type: ignore[return-value]
    if not isinstance(returned, tuple | list) or len(returned) != len(NAMES):
        what = f"{len(returned)} values" if isinstance(returned, tuple | list) else article(returned)
        raise UsageError(f"dataset '{name}' returned {what}; it must return {RETURNS}.")
    arrays = {key: _array(f"dataset '{name}': {key}", value) for key, value in zip(NAMES, returned, strict=True)}
    dataset, kept = in_memory(f"dataset '{name}'", arrays)
    return dataset, digest(kept)


def _is_dataset(value: object) -> bool:
    batches = (getattr(value, method, None) for method in ("train_batches", "test_batches"))
    return isinstance(getattr(value, "info", None), Info) and all(map(callable, batches))


def _array(where: str, value: object) -> NDArray[Any]:
    from torch import Tensor

    try:
        value = value.detach().cpu().numpy() if isinstance(value, Tensor) else value
    except (TypeError, RuntimeError) as error:
        raise UsageError(f"{where} cannot be converted to NumPy ({error}).") from error
    if not isinstance(value, np.ndarray):
        raise UsageError(f"{where} is {article(value)}, not a NumPy array or a tensor.")
    return value

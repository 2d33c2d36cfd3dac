"""Numbers that no training records are damage: they are neither shown nor computed with."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from asni.errors import AsniError

_RANGES = {
    "accuracy": (0, 100),
    "nonzeros": (0, 2**53),
    "sparsity": (0, 1),
    "total_sparsity": (0, 1),
    "mac_density": (0, 1),
    "seconds": (0, 10**10),
}


def require_possible(path: Path, numbers: Mapping[str, Any]) -> None:
    """Refuse the result of a run, or the columns of its metrics, if a number is impossible; NaN is possible."""
    found = {key: np.atleast_1d(np.asarray(numbers[key], np.float64)) for key in _RANGES if key in numbers}
    for key, values in found.items():
        low, high = _RANGES[key]
        if (outside := values[(values < low) | (values > high)]).size:
            raise AsniError(f"{path}: {key} is {outside[0]:g}, not between {low} and {high}")
    if "sparsity" in found and "total_sparsity" in found:
        pruned, total = found["sparsity"], found["total_sparsity"]
        if (wrong := total > pruned * (1 + 1e-9)).any():
            more, less = total[wrong][0], pruned[wrong][0]
            raise AsniError(f"{path}: total_sparsity is {more:g}, above the sparsity of {less:g} among fewer weights")

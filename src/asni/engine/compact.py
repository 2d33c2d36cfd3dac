"""Weights kept as their nonzeros: an engine needs them again only when another batch size asks for another program."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from asni.engine.graph import Array
from asni.engine.steps import Shape, Steps

_SPARSE_BELOW = 0.5
"""The density below which positions and values of the nonzeros take less memory than all weights."""


class _Nonzeros:
    """A sparse array that gives the dense one when asked."""

    def __init__(self, array: Array) -> None:
        flat = array.reshape(-1)
        self._shape: Shape = array.shape
        self._positions = np.flatnonzero(flat).astype(np.uint32 if flat.size < 2**32 else np.uint64)
        self._values = flat[self._positions]

    def dense(self) -> Array:
        array = np.zeros(self._shape, np.float32)
        array.reshape(-1)[self._positions] = self._values
        return array


class _Constants(Mapping[str, Array]):
    """The constants of a step; sparse ones are made dense anew for everyone who asks."""

    def __init__(self, constants: Mapping[str, Array]) -> None:
        self._kept = {name: _Nonzeros(array) if _is_sparse(array) else array for name, array in constants.items()}

    def __getitem__(self, name: str) -> Array:
        kept = self._kept[name]
        return kept.dense() if isinstance(kept, _Nonzeros) else kept

    def __iter__(self) -> Iterator[str]:
        return iter(self._kept)

    def __len__(self) -> int:
        return len(self._kept)

    def __contains__(self, name: object) -> bool:
        return name in self._kept


def compact(steps: Steps) -> Steps:
    """The same steps, with sparse constants in the memory of their nonzeros."""
    return replace(steps, steps=tuple(replace(step, constants=_Constants(step.constants)) for step in steps.steps))


def _is_sparse(array: Array) -> bool:
    return bool(array.dtype == np.float32 and np.count_nonzero(array) < _SPARSE_BELOW * array.size)

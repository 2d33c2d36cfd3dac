"""The weights of a layer as tables: rounded, and without their zeros where that is smaller."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from asni.engine.graph import Array
from asni.engine.steps import Step, Steps
from asni.errors import EngineError, shown
from asni.packing.dtypes import Tensor
from asni.packing.rounding import quantise

Precision = Literal["exact", "half", "int8"]
LAYERS = ("conv", "linear")
_LONGEST_GAP = 255
_MOST_IN_ROW = 2**16 - 1


@dataclass(frozen=True)
class Rounded:
    """Stored numbers, one row per output, and the float32 that each of them stands for: times its scale, if any."""

    stored: Array
    scales: Array | None
    values: Array


@dataclass(frozen=True)
class Sparse:
    """Weights one after the other: how many each row has, and how many zeros stand before each weight."""

    counts: Array
    gaps: Array
    stored: Array

    @property
    def bytes(self) -> int:
        """The memory of the tables."""
        return self.counts.nbytes + self.gaps.nbytes + self.stored.nbytes


def rounded(step: Step, precision: Precision) -> Rounded:
    """The weights of a convolution or a linear layer in a precision, as a matrix with one row per output.

    They are finite: zeros could not be left out otherwise.
    """
    weight = step.constants["weight"]
    rows = np.ascontiguousarray(weight.reshape(len(weight), -1), np.float32)
    if not all(np.isfinite(constant).all() for constant in step.constants.values()):
        raise EngineError(f"{step.kind} {shown(step.name)}: its weights hold NaN or infinity.")
    if precision == "int8":
        tensor, scales = quantise(step.name, Tensor.of(rows))
        stored = tensor.array.reshape(rows.shape)
        return Rounded(stored, scales, stored.astype(np.float32) * scales[:, None])
    if precision == "exact":
        return Rounded(rows, None, rows)
    with np.errstate(over="ignore"):
        half = rows.astype(np.float16)
    if not np.isfinite(half).all():
        raise EngineError(
            f"{step.kind} {shown(step.name)}: its weights are beyond the range of half precision. Use exact or int8."
        )
    return Rounded(half, None, half.astype(np.float32))


def with_rounded_weights(steps: Steps, precision: Precision) -> Steps:
    """The steps that an exported file runs, to know what comes out of it."""
    return replace(
        steps,
        steps=tuple(
            replace(step, constants=_with_rounded(step, precision)) if step.kind in LAYERS else step
            for step in steps.steps
        ),
    )


def _with_rounded(step: Step, precision: Precision) -> Mapping[str, Array]:
    weight = rounded(step, precision).values.reshape(step.constants["weight"].shape)
    return {**step.constants, "weight": weight}


def without_zeros(rows: Array) -> Sparse | None:
    """The nonzeros of a matrix, or None if the matrix itself is not larger.

    A gap of more than 255 is bridged by zeros that are stored like weights, so that reading has nothing to decide.

    >>> found = without_zeros(np.array([[0, 5] + [0] * 300 + [7], [0] * 303], np.int8))
    >>> found.counts.tolist(), found.gaps.tolist(), found.stored.tolist()
    ([3, 0], [1, 255, 44], [5, 0, 7])
    """
    row_of, place = np.nonzero(rows)
    starts = np.append(True, row_of[1:] != row_of[:-1])[: len(place)]
    gaps = np.diff(place, prepend=-1) - 1
    gaps[starts] = place[starts]
    bridges = gaps // (_LONGEST_GAP + 1)
    each = np.repeat(np.arange(len(gaps)), bridges + 1)
    last = np.append(each[1:] != each[:-1], True)[: len(each)]
    counts = np.bincount(row_of[each], minlength=len(rows))
    found = Sparse(
        counts.astype(np.uint16),
        np.where(last, gaps[each] - bridges[each] * (_LONGEST_GAP + 1), _LONGEST_GAP).astype(np.uint8),
        np.where(last, rows[row_of[each], place[each]], 0).astype(rows.dtype),
    )
    return found if found.bytes < rows.nbytes and counts.max() <= _MOST_IN_ROW else None


def stored_bits(stored: Array) -> np.ndarray[Any, Any]:
    """Stored numbers as a C file has them: half precision as integers."""
    return stored.view(np.uint16) if stored.dtype == np.float16 else stored

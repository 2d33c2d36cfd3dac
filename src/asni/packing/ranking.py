"""How many weights of each tensor one magnitude threshold over all of them leaves, in the memory of one tensor."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from asni.errors import PackError
from asni.packing.dtypes import Tensor

_DIGIT = 16


def largest_of_each(tensors: Mapping[str, Tensor], keep: int) -> dict[str, int]:
    """How many of the `keep` largest magnitudes lie in each tensor; ties go to the earlier one, and zeros to none.

    >>> tensors = {"a": Tensor.of(np.float32([1, -3, 0])), "b": Tensor.of(np.float32([3, 2]))}
    >>> largest_of_each(tensors, keep=1), largest_of_each(tensors, keep=3), largest_of_each(tensors, keep=5)
    ({'a': 1, 'b': 0}, {'a': 1, 'b': 2}, {'a': 2, 'b': 2})
    """
    threshold = _kth_largest(tensors, keep)
    larger = {name: int(np.count_nonzero(_magnitudes(name, tensor) > threshold)) for name, tensor in tensors.items()}
    left = keep - sum(larger.values())
    for name, tensor in tensors.items():
        ties = int(np.count_nonzero(_magnitudes(name, tensor) == threshold)) if threshold else 0
        larger[name] += min(ties, left)
        left -= min(ties, left)
    return larger


def _kth_largest(tensors: Mapping[str, Tensor], k: int) -> int:
    """The k-th largest magnitude, or 0: its first 16 bits are found by counting, then the next ones of those."""
    found = 0
    for shift in (_DIGIT, 0):
        counts = np.zeros(2**_DIGIT, np.int64)
        for name, tensor in tensors.items():
            bits = _magnitudes(name, tensor)
            same = bits if shift else bits[bits >> _DIGIT == found]
            counts += np.bincount((same >> shift) & (2**_DIGIT - 1), minlength=2**_DIGIT)
        not_smaller = counts[::-1].cumsum()
        place = int(np.searchsorted(not_smaller, k))
        if place == len(counts):
            return 0
        k -= int(not_smaller[place - 1]) if place else 0
        found = (found << _DIGIT) + len(counts) - 1 - place
    return found


def _magnitudes(name: str, tensor: Tensor) -> npt.NDArray[np.uint32]:
    """The bits of the absolute values in single precision, which are ordered like them."""
    values = tensor.to_float32()
    if not np.isfinite(values).all():
        raise PackError(f"{name} holds NaN or infinity, so its weights cannot be ranked")
    return np.abs(values).view(np.uint32)

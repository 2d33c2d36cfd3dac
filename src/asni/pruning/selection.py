"""The k-th largest of numbers that are spread over processes, found without collecting them.

Floats are ordered like integers made from their bits. The processes count how often each value of the first 16 bits
occurs, and sum the counts; this tells the first 16 bits of the k-th largest. Of the numbers that begin with them, they
count the next 16 bits, and so on.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from asni.errors import AsniError
from asni.pruning.sharded import summed, zeros_on_each

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

DIGIT = 16
DIGITS = 2**DIGIT


def ordered_bits(values: Tensor) -> Tensor:
    """Signed integers in the order of the floats (float32 or float64); -0.0 equals 0.0.

    >>> ordered_bits(torch.tensor([-2.0, -1.0, -0.0, 0.0, 1.0])).argsort(stable=True).tolist()
    [0, 1, 2, 3, 4]
    """
    integer = torch.int64 if values.dtype == torch.float64 else torch.int32
    bits = (values + 0.0).view(integer)
    # The larger the integer of a negative float, the smaller the float: all bits but the sign are flipped.
    return bits ^ ((bits >> (torch.iinfo(integer).bits - 1)) & torch.iinfo(integer).max)


def kth_largest(
    keys: "Mapping[DeviceMesh, Callable[[], Iterator[Tensor]]]", k: int, dtype: torch.dtype
) -> tuple[int, int]:
    """The k-th largest key of all processes, and how many of the keys that equal it are among the k largest.

    `keys[mesh]()` gives this process's share of the keys that are counted over `mesh`, in pieces: integers of `dtype`.
    """
    found = 0
    top = torch.iinfo(dtype).bits - DIGIT
    for shift in range(top, -1, -DIGIT):
        counts = zeros_on_each(keys, DIGITS)
        for mesh, pieces in keys.items():
            for piece in pieces():
                # The first digit carries the sign.
                digits = (piece >> shift) + DIGITS // 2 if shift == top else _digits_after(found, piece, shift)
                counts[mesh] += torch.bincount(digits, minlength=DIGITS).to(counts[mesh].device)
        not_smaller = summed(counts).flip(0).cumsum(0)
        place = int(torch.searchsorted(not_smaller, k))
        k -= int(not_smaller[place - 1]) if place else 0
        digit = DIGITS - 1 - place
        found = digit - DIGITS // 2 if shift == top else found * DIGITS + digit
    return found, k


def _digits_after(found: int, piece: Tensor, shift: int) -> Tensor:
    beginning_so = piece[(piece >> (shift + DIGIT)) == found]
    return beginning_so.bitwise_right_shift(shift).bitwise_and(DIGITS - 1)


def not_finite(name: str, bad: int, size: int) -> AsniError:
    return AsniError(
        f"{bad:,} of {size:,} values of layer '{name}' are NaN or infinite, so they cannot be ranked. "
        "If weights are, the training has diverged: lower the learning rate."
    )

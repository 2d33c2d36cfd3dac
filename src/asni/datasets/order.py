"""Which samples an epoch visits, in which order, and which of them belong to one process."""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from asni.errors import UsageError


def epoch_order(size: int, batch_size: int, steps: int, *, seed: int, epoch: int) -> Tensor:
    """Sample indices of one epoch: a pure function of its arguments, so that a resumed run needs no saved state.

    When `steps` batches are one pass over the data, epoch e is permutation e. Otherwise the epochs are cut, `steps`
    batches each, from an endless stream of permutations. Permutation n is drawn from `(seed, n)` alone.

    >>> epoch_order(5, 2, 3, seed=0, epoch=0).sort().values.tolist()
    [0, 1, 2, 3, 4]
    >>> len(epoch_order(5, 2, 4, seed=0, epoch=0))
    8
    """
    if not 1 <= batch_size <= size:
        raise UsageError(f"batch_size = {batch_size} must be from 1 to {size}, the number of training images")
    if steps < 1:
        raise UsageError(f"an epoch needs at least one step, not {steps}")
    if steps == -(-size // batch_size):
        return _permutation(size, seed, epoch)
    begin, end = epoch * steps * batch_size, (epoch + 1) * steps * batch_size
    first, last = begin // size, -(-end // size)
    stream = torch.cat([_permutation(size, seed, number) for number in range(first, last)])
    return stream[begin - first * size : end - first * size]


def shares(length: int, batch_size: int, *, start: int = 0, rank: int = 0, world: int = 1) -> Iterator[range]:
    """The positions that `rank` of `world` works on, batch by batch from batch `start` on.

    >>> list(shares(7, 4, rank=1, world=2))
    [range(2, 4), range(5, 7)]
    """
    begins = range(start * batch_size, length, batch_size)
    return (share(begin, min(begin + batch_size, length), rank, world) for begin in begins)


def share(begin: int, end: int, rank: int, world: int) -> range:
    """The contiguous part of the positions `begin..end` that `rank` of `world` works on.

    >>> [list(share(10, 15, rank, 2)) for rank in range(2)]
    [[10, 11], [12, 13, 14]]
    """
    length = end - begin
    return range(begin + rank * length // world, begin + (rank + 1) * length // world)


def _permutation(size: int, seed: int, number: int) -> Tensor:
    return torch.from_numpy(np.random.default_rng((seed, number)).permutation(size))

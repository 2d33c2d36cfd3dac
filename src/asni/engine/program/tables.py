"""The weights of a layer in the form that each kernel walks through."""

import numpy as np

from asni.engine.graph import Array
from asni.engine.program.geometry import Taps

_G = np.array(
    [
        [1 / 4, 0, 0],
        [-1 / 6, -1 / 6, -1 / 6],
        [-1 / 6, 1 / 6, -1 / 6],
        [1 / 24, 1 / 12, 1 / 6],
        [1 / 24, -1 / 12, 1 / 6],
        [0, 0, 1],
    ]
)
"""Winograd's transform of the weights for F(4x4, 3x3), with the points 0, 1, -1, 2, -2 and infinity."""


def _flat(weight: Array) -> Array:
    return weight.reshape(*weight.shape[:2], -1)


def is_used(weight: Array, taps: Taps, *, zeros: bool) -> Array:
    """Which weights (output, input, place) take part: nonzeros, or all if zeros must count too."""
    used: Array = ((_flat(weight) != 0) | zeros) & taps.seen
    return used


def sparse_table(weight: Array, taps: Taps, groups: int, blocks: int, *, zeros: bool) -> tuple[Array, Array, Array]:
    """The nonzeros ordered by block of input channels, output channel and place: starts, offsets and values."""
    outputs, members = weight.shape[:2]
    output, member, place = np.nonzero(is_used(weight, taps, zeros=zeros))
    channel = member + output // (outputs // groups) * members
    key = channel * blocks // (members * groups) * outputs + output
    if blocks > 1:
        order = np.argsort(key, kind="stable")
        output, member, place, channel, key = (each[order] for each in (output, member, place, channel, key))
    start = np.zeros(blocks * outputs + 1, np.int32)
    np.cumsum(np.bincount(key, minlength=blocks * outputs), out=start[1:])
    return start, taps.offset[channel, place].astype(np.int32), _flat(weight)[output, member, place].copy()


def dense_table(weight: Array, taps: Taps, groups: int, pack: int) -> tuple[Array, Array]:
    """The offsets of each group's inputs, and all weights in packs of output channels that share a load."""
    outputs, members = weight.shape[:2]
    seen = np.flatnonzero(taps.seen)
    inputs = members * len(seen)
    offset = taps.offset[:, seen].reshape(groups, inputs).astype(np.int32)
    each = outputs // groups
    packs = -(-each // pack)
    padded = np.zeros((groups, packs * pack, inputs), weight.dtype)
    padded[:, :each] = _flat(weight)[:, :, seen].reshape(groups, each, inputs)
    packed = padded.reshape(groups, packs, pack, inputs).transpose(0, 1, 3, 2)
    return np.ascontiguousarray(offset), np.ascontiguousarray(packed)


def winograd_table(weight: Array, pack: int) -> Array:
    """The transformed 3x3 kernels: frequency, pack of output channels, input channel, channel in the pack."""
    outputs, inputs = weight.shape[:2]
    packs = -(-outputs // pack)
    padded = np.zeros((packs * pack, inputs, 3, 3))
    padded[:outputs] = weight
    transformed = np.einsum("fi,ocij,gj->fgoc", _G, padded, _G, optimize=True)
    table = transformed.reshape(36, packs, pack, inputs).transpose(0, 1, 3, 2)
    return np.ascontiguousarray(table, np.float32)

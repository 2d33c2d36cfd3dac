"""The nonzeros of a layer in the order in which the backward pass walks through them."""

from dataclasses import dataclass
from math import prod

import numpy as np

from asni.engine.graph import Array
from asni.engine.program.geometry import Window
from asni.engine.program.layouts import Halo, Layout


@dataclass(frozen=True)
class Phase:
    """Input positions that lie a stride apart and see the same weights: the first one, and how many there are.

    The nonzeros that they see are ordered by chunk of input channels, block of output channels and input channel; each
    of these begins at its entry of `start`, and ends at the next. `offset` leads to the gradient of the output.
    """

    row: int
    column: int
    rows: int
    columns: int
    start: Array
    offset: Array


@dataclass(frozen=True)
class Walk:
    """All nonzeros of a layer, as flat positions in its weight; those that see padding alone come last."""

    phases: tuple[Phase, ...]
    order: Array


def halo_of_gradient(window: Window, size: tuple[int, int], outputs: tuple[int, int]) -> Halo:
    """How far around the gradient of a layer's output its backward pass reads."""
    sides = []
    for axis, pad in enumerate((window.top, window.left)):
        first = np.arange(window.stride[axis])[:, None] + pad - np.arange(window.kernel[axis]) * window.dilation[axis]
        whole = first % window.stride[axis] == 0
        steps = first // window.stride[axis]
        positions = -(-(size[axis] - np.arange(window.stride[axis])) // window.stride[axis])
        last = steps + positions[:, None] - 1
        sides.append((max(0, -int(steps[whole].min())), max(0, int(last[whole].max()) - outputs[axis] + 1)))
    (top, bottom), (left, right) = sides
    return top, left, bottom, right


def walk_of_convolution(mask: Array, window: Window, x: Layout, dy: Layout, blocks: int, chunk: int) -> Walk:
    """The nonzeros phase by phase, in each by chunk, block, input channel, output channel and place."""
    outputs, members = mask.shape[:2]
    flat = np.flatnonzero(mask)
    output, member, down, right = np.unravel_index(flat, mask.shape)
    channel = member + output // (outputs // window.groups) * members
    channels, (height, width) = members * window.groups, x.shape[2:]
    phases, order = [], []
    for row in range(min(window.stride[0], height)):
        for column in range(min(window.stride[1], width)):
            above = row + window.top - down * window.dilation[0]
            before = column + window.left - right * window.dilation[1]
            seen = np.flatnonzero((above % window.stride[0] == 0) & (before % window.stride[1] == 0))
            key = _key(output[seen] * blocks // outputs, channel[seen], channels, blocks, chunk)
            seen = seen[np.argsort(key, kind="stable")]
            offset = (
                output[seen] * dy.channel
                + above[seen] // window.stride[0] * dy.row
                + before[seen] // window.stride[1] * dy.element
            )
            rows, columns = -(-(height - row) // window.stride[0]), -(-(width - column) // window.stride[1])
            start = _starts(key, blocks * channels)
            phases.append(Phase(row, column, rows, columns, start, offset.astype(np.int32)))
            order.append(flat[seen])
    walked = np.concatenate(order)
    unseen = np.setdiff1d(flat, walked, assume_unique=True)
    return Walk(tuple(phases), np.concatenate([walked, unseen]))


def walk_of_features(mask: Array, dy: Layout, blocks: int, chunk: int) -> Walk:
    """The nonzeros of a linear layer: each of its inputs is a channel with one position."""
    outputs, features = mask.shape[0], prod(mask.shape[1:])
    output, feature = np.nonzero(mask.reshape(outputs, features))
    key = _key(output * blocks // outputs, feature, features, blocks, chunk)
    order = np.argsort(key, kind="stable")
    start = _starts(key, blocks * features)
    output, feature = output[order], feature[order]
    phase = Phase(0, 0, 1, 1, start, (output * dy.channel).astype(np.int32))
    return Walk((phase,), output * features + feature)


def _key(block: Array, channel: Array, channels: int, blocks: int, chunk: int) -> Array:
    """Where the nonzeros of a block and an input channel stand in the order of chunks, blocks and channels."""
    first = channel // chunk * chunk
    found: Array = first * blocks + block * np.minimum(chunk, channels - first) + channel - first
    return found


def _starts(key: Array, count: int) -> Array:
    start = np.zeros(count + 1, np.int32)
    np.cumsum(np.bincount(key, minlength=count), out=start[1:])
    return start

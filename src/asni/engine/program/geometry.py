"""Where a layer's inputs and outputs lie: the same few numbers for convolutions and linear layers, in both layouts."""

from dataclasses import dataclass

import numpy as np

from asni.engine.graph import Array
from asni.engine.program.layouts import Layout, Machine
from asni.engine.steps import Step


@dataclass(frozen=True)
class Window:
    """A convolution's window: kernel, stride and dilation (height, width), padding at the top and left."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    top: int
    left: int
    groups: int
    is_padded: bool = False
    """Whether there is any padding, also at the bottom and right."""

    @staticmethod
    def of(step: Step) -> "Window":
        """The window of a convolution step."""
        height, width = step.constants["weight"].shape[2:]
        settings = step.settings
        top, left = settings["pads"][:2]
        sizes = ((height, width), settings["stride"], settings["dilation"])
        return Window(*sizes, top, left, settings["groups"], any(settings["pads"]))

    @property
    def is_pointwise(self) -> bool:
        """Whether each output depends on the input at the same place alone."""
        return self.kernel == (1, 1) and self.stride == (1, 1) and not self.is_padded


@dataclass(frozen=True)
class Taps:
    """The inputs of the output at the top left: for input channel c and place k of the kernel, offset[c, k] floats.

    `seen[k]` says whether place k ever lies inside of the map; weights that see only padding are left out.
    """

    offset: Array
    seen: Array


@dataclass(frozen=True)
class Planes:
    """The copies of each channel that "plain" needs for kernels larger than 1x1: neighbouring outputs read neighbours.

    `kinds` has the first row and column of each, which may lie outside; `rows` of `columns` pixels, `stride` floats
    from one copy to the next. `mask` is for copies that are the whole map moved by a distance: what lies inside.
    """

    kinds: Array
    mask: Array | None
    rows: int
    columns: int
    stride: int
    floats: int


def seen_places(window: Window, height: int, width: int, rows: int, columns: int) -> Array:
    """For each place of the kernel, whether any output sees a pixel of the map there."""

    def inside(size: int, outputs: int, length: int, step: int, dilation: int, pad: int) -> Array:
        at = np.arange(outputs)[:, None] * step + np.arange(length)[None] * dilation - pad
        return np.asarray(((at >= 0) & (at < size)).any(0))

    vertical = inside(height, rows, window.kernel[0], window.stride[0], window.dilation[0], window.top)
    horizontal = inside(width, columns, window.kernel[1], window.stride[1], window.dilation[1], window.left)
    found: Array = (vertical[:, None] & horizontal[None]).ravel()
    return found


def taps_in_place(window: Window, x: Layout, outputs: tuple[int, int]) -> Taps:
    """Taps that read the map where it lies, from the pixel at the top left, which may be in the halo."""
    _, channels, height, width = x.shape
    vertical, horizontal = np.indices(window.kernel).reshape(2, -1)
    place = vertical * window.dilation[0] * x.row + horizontal * window.dilation[1] * x.element
    offset = np.arange(channels)[:, None] * x.channel + place[None]
    return Taps(offset, seen_places(window, height, width, *outputs))


def taps_of_pixel(window: Window, x: Layout) -> Taps:
    """Taps of an output map of one pixel, which reads the map where it lies; there is no halo."""
    taps = taps_in_place(window, x, (1, 1))
    return Taps(taps.offset - window.top * x.row - window.left * x.element, taps.seen)


def taps_in_planes(
    window: Window, x: Layout, outputs: tuple[int, int], machine: Machine, *, whole: bool
) -> tuple[Taps, Planes]:
    """Taps that read shifted copies. `whole`: a copy for every place of the kernel, which is always aligned; else one
    for every column of the kernel and every phase of the stride, whose rows serve several places."""
    _, channels, height, width = x.shape
    rows, columns = outputs
    (_, kernel_width), (step, _) = window.kernel, window.stride
    vertical, horizontal = np.indices(window.kernel).reshape(2, -1)
    down = vertical * window.dilation[0]
    phase, shift = (down, np.zeros_like(down)) if whole else (down % step, down // step)
    more = int(shift.max())
    key = phase * kernel_width + horizontal
    found, kind = np.unique(key, return_inverse=True)
    first = np.stack([found // kernel_width - window.top, found % kernel_width * window.dilation[1] - window.left], 1)
    vector = machine.vector(rows * columns)
    stride = -(-(rows + more) * columns // vector) * vector
    plane = np.arange(channels)[:, None] * len(found) + kind[None]
    offset = plane * stride + shift[None] * columns
    moved = columns == width and window.stride == (1, 1)
    mask = _inside(first, rows + more, (height, width), stride) if moved else None
    planes = Planes(
        np.ascontiguousarray(first, np.int32),
        mask,
        rows + more,
        columns,
        stride,
        channels * len(found) * stride + machine.lanes,
    )
    return Taps(offset, seen_places(window, height, width, rows, columns)), planes


def _inside(first: Array, rows: int, size: tuple[int, int], stride: int) -> Array:
    """For each copy of a whole map, all bits set where it shows a pixel of the map."""
    height, width = size
    down, right = np.indices((rows, width)).reshape(2, -1)
    row, column = first[:, :1] + down, first[:, 1:] + right
    mask = np.zeros((len(first), stride), np.int32)
    mask[:, : rows * width] = -((row >= 0) & (row < height) & (column >= 0) & (column < width)).astype(np.int32)
    return mask

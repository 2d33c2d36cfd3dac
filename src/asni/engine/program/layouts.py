"""How a value lies in the memory of one group: the layout "lanes" holds one vector of items, "plain" a single item."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Literal

from asni.engine.steps import Shape

Mode = Literal["plain", "lanes"]
MODES: tuple[Mode, ...] = ("plain", "lanes")
Halo = tuple[int, int, int, int]
"""Rows above, columns to the left, rows below and columns to the right of a map, all zeros."""

NO_HALO: Halo = (0, 0, 0, 0)


@dataclass(frozen=True)
class Machine:
    """What the native core was chosen to run on: floats per vector, and billions of multiplications per second."""

    lanes: int
    peak: float = 1.0

    def vector(self, pixels: int) -> int:
        """How many lanes a vector of neighbouring pixels has: a small map does not fill the widest one."""
        return next((width for width in (1, 4, 8) if pixels <= width < self.lanes), self.lanes)


@dataclass(frozen=True)
class Layout:
    """Strides and sizes in floats; `first` is where the first element lies behind the start of the value."""

    shape: Shape
    strides: tuple[int, ...]
    element: int
    first: int
    floats: int
    halo: Halo = NO_HALO

    @property
    def is_contiguous(self) -> bool:
        """Whether the elements lie one after the other, in the order of the shape."""
        return self.strides == contiguous_strides(self.shape, self.element) and self.first == 0

    @property
    def channel(self) -> int:
        """From one channel of a map to the next."""
        return self.strides[1]

    @property
    def row(self) -> int:
        """From one row of a map to the next."""
        return self.strides[2]


def contiguous_strides(shape: Sequence[int], element: int) -> tuple[int, ...]:
    """Strides in floats of an array in row-major order."""
    return tuple(element * prod(shape[axis + 1 :]) for axis in range(len(shape)))


def layout_of(shape: Shape, mode: Mode, machine: Machine, halo: Halo = NO_HALO) -> Layout:
    """Values of four dimensions are maps: with a halo in "lanes", with whole vectors of pixels in "plain"."""
    element = machine.lanes if mode == "lanes" else 1
    if len(shape) != 4:
        return Layout(shape, contiguous_strides(shape, element), element, 0, element * prod(shape))
    items, channels, height, width = shape
    if mode == "lanes":
        top, left, bottom, right = halo
        row = element * (left + width + right)
        channel, first = row * (top + height + bottom), top * row + left * element
    else:
        row, first = width, 0
        vector = machine.vector(height * width)
        channel = -(-height * width // vector) * vector
    strides = (channels * channel, channel, row, element)
    return Layout(shape, strides, element, first, items * channels * channel, halo if mode == "lanes" else NO_HALO)

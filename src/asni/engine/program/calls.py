"""A program before its memory is laid out: calls of kernels whose operands are values by name."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

from asni.engine.program.layouts import NO_HALO, Layout, Machine, Mode
from asni.engine.steps import Shape


@dataclass(frozen=True)
class Place:
    """An operand: so many floats behind the start of a value."""

    value: str
    more: int = 0


@dataclass(frozen=True)
class Call:
    """A kernel with its parameters: numbers, arrays that it points to, and places. `step` is the step's number."""

    kernel: str
    step: int
    fields: Mapping[str, Any]
    reads: tuple[str, ...]
    writes: str


@dataclass
class Draft:
    """The calls so far and the layout of every value; a view shares the memory of another value."""

    mode: Mode
    machine: Machine
    calls: list[Call] = field(default_factory=list)
    layouts: dict[str, Layout] = field(default_factory=dict)
    views: dict[str, str] = field(default_factory=dict)
    temporaries: int = 0
    margin: int = 0
    """Floats before the first and behind the last value that a kernel may read, and does not use."""

    def need_margin(self, floats: int) -> None:
        """Raise the margin to this."""
        self.margin = max(self.margin, floats)

    @property
    def element(self) -> int:
        """Floats per element."""
        return self.machine.lanes if self.mode == "lanes" else 1

    def storage(self, name: str) -> str:
        """The value whose memory this one uses."""
        while name in self.views:
            name = self.views[name]
        return name

    def place(self, name: str, more: int = 0) -> Place:
        """The first element of a value."""
        return Place(self.storage(name), self.layouts[name].first + more)

    def temporary(self, layout: Layout) -> str:
        """A new value that no step has."""
        self.temporaries += 1
        name = f" {self.temporaries}"
        self.layouts[name] = layout
        return name

    def flat(self, floats: int) -> str:
        """A new value of so many floats."""
        return self.temporary(Layout((floats,), (1,), 1, 0, floats))

    def view(self, name: str, of: str, layout: Layout) -> None:
        """Let a value be another one in a different shape."""
        self.layouts[name] = layout
        self.views[name] = of

    def geometry(self, name: str) -> Hashable:
        """Which values may share the memory of this one: those with the same halo, or any without."""
        layout = self.layouts[name]
        return None if layout.halo == NO_HALO else (layout.shape, layout.halo)

    def call(self, kernel: str, step: int, writes: str, reads: tuple[str, ...], **fields: Any) -> None:
        """Add a call."""
        stored = tuple(self.storage(name) for name in reads)
        self.calls.append(Call(kernel, step, fields, stored, self.storage(writes)))


def merged(size: Shape, *strides: tuple[int, ...]) -> tuple[list[int], list[list[int]]]:
    """Join neighbouring dimensions that every operand walks through in one go, and drop those of size 1.

    >>> merged((2, 3, 4), (12, 4, 1), (24, 8, 2))
    ([24], [[1], [2]])
    """
    sizes: list[int] = []
    walks: list[list[int]] = [[] for _ in strides]
    for axis, length in enumerate(size):
        if length == 1:
            continue
        if sizes and all(walk[-1] == stride[axis] * length for walk, stride in zip(walks, strides, strict=True)):
            sizes[-1] *= length
            for walk, stride in zip(walks, strides, strict=True):
                walk[-1] = stride[axis]
        else:
            sizes.append(length)
            for walk, stride in zip(walks, strides, strict=True):
                walk.append(stride[axis])
    return sizes, walks

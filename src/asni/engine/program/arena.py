"""Which value lies where in the memory of a group: values that do not live at the same time share it."""

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

_ALIGNMENT = 16
"""In floats: a cache line."""


@dataclass(frozen=True)
class Lifetime:
    """A value from the operation that writes it to the last that reads it.

    What lies around a map with a halo must stay zero: its memory is shared only with values of the same `geometry`.
    """

    name: str
    floats: int
    begin: int
    end: int
    geometry: Hashable = None


def place(lifetimes: Sequence[Lifetime]) -> tuple[dict[str, int], int]:
    """The offset of each value, and the floats that all of them take.

    >>> place([Lifetime("a", 16, 0, 1), Lifetime("b", 16, 1, 2), Lifetime("c", 16, 2, 3)])
    ({'a': 0, 'b': 16, 'c': 0}, 32)
    """
    slots = _shared_slots([value for value in lifetimes if value.geometry is not None])
    offsets: dict[str, int] = {}
    total = 0
    for names, floats in slots:
        offsets |= dict.fromkeys(names, total)
        total += _aligned(floats)
    placed: list[tuple[Lifetime, int]] = []
    for value in sorted((each for each in lifetimes if each.geometry is None), key=lambda each: -each.floats):
        offset = _lowest_gap(value, placed)
        placed.append((value, offset))
        offsets[value.name] = total + offset
    return offsets, total + max((offset + _aligned(value.floats) for value, offset in placed), default=0)


def _shared_slots(values: Sequence[Lifetime]) -> list[tuple[list[str], int]]:
    """Values of one geometry that follow each other take turns in a slot."""
    slots: dict[Hashable, list[tuple[list[str], int, int]]] = defaultdict(list)
    for value in sorted(values, key=lambda each: each.begin):
        same = slots[value.geometry]
        free = next((index for index, (_, _, end) in enumerate(same) if end < value.begin), None)
        if free is None:
            same.append(([value.name], value.floats, value.end))
        else:
            same[free] = ([*same[free][0], value.name], value.floats, value.end)
    return [(names, floats) for same in slots.values() for names, floats, _ in same]


def _lowest_gap(value: Lifetime, placed: Sequence[tuple[Lifetime, int]]) -> int:
    """The lowest offset at which no value that lives at the same time is in the way."""
    offset = 0
    rivals = [(at, each) for each, at in placed if each.begin <= value.end and value.begin <= each.end]
    for at, each in sorted(rivals, key=lambda rival: rival[0]):
        if at - offset >= _aligned(value.floats):
            break
        offset = max(offset, at + _aligned(each.floats))
    return offset


def _aligned(floats: int) -> int:
    return -(-floats // _ALIGNMENT) * _ALIGNMENT

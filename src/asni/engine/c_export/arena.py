"""Where each value lies: in the arguments of the function, in a table, or in scratch memory that values share."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from asni.engine.steps import Step, Steps

IN_PLACE = ("unary", "binary", "softmax", "layer_norm")
"""Steps that read an element, or its row, before they write it: the result may take the place of an operand."""


@dataclass
class _Block:
    """Memory of some values from the step that writes the first to the step that reads the last."""

    floats: int
    first: int
    last: int
    place: str | None = None
    offset: int = 0

    def meets(self, other: "_Block") -> bool:
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True)
class Arena:
    """The C expression of every value, the scratch memory, and which outputs are copies: (value, expression)."""

    places: Mapping[str, str]
    floats: int
    copies: tuple[tuple[str, str], ...]


def arranged(steps: Steps, inputs: Mapping[str, str], outputs: tuple[str, ...], tables: Mapping[str, str]) -> Arena:
    """Arrange the values of steps; inputs, outputs and constants have their C expressions already."""
    last = _last_readers(steps)
    blocks = {value: _Block(0, 0, 0, place) for value, place in {**inputs, **tables}.items()}
    for index, step in enumerate(steps.steps):
        if step.kind == "reshape":
            blocks[step.output] = blocks[step.inputs[0]]
        elif step.kind != "constant":
            block = _replaced(step, steps, index, blocks) or _Block(prod(steps.shapes[step.output]), index, index)
            block.last = last[step.output]
            blocks[step.output] = block
    copies = []
    for value, place in zip(steps.outputs, outputs, strict=True):
        if blocks[value].place is None:
            blocks[value].place = place
        else:
            copies.append((value, place))
    floats = _stack([block for block in _distinct(blocks) if block.place is None])
    places = {value: block.place or added("scratch", block.offset) for value, block in blocks.items()}
    return Arena(places, floats, tuple(copies))


def added(pointer: str, offset: int) -> str:
    """A place behind another, as a person would write it."""
    return f"{pointer} + {offset}" if offset else pointer


def _last_readers(steps: Steps) -> dict[str, int]:
    """The last step that reads each value or a reshaped form of it; for outputs, the end."""
    last = {step.output: index for index, step in enumerate(steps.steps)} | dict.fromkeys(steps.inputs, 0)
    last |= dict.fromkeys(steps.outputs, len(steps.steps))
    for index, step in reversed(list(enumerate(steps.steps))):
        for value in step.inputs:
            last[value] = max(last[value], last[step.output] if step.kind == "reshape" else index)
    return last


def _replaced(step: Step, steps: Steps, index: int, blocks: Mapping[str, _Block]) -> _Block | None:
    """The memory of an operand that nobody needs any more, if the result may take its place."""
    size = prod(steps.shapes[step.output])
    for value in step.inputs if step.kind in IN_PLACE else ():
        block = blocks[value]
        if block.place is None and block.last == index and block.floats == size:
            return block
    return None


def _distinct(blocks: Mapping[str, _Block]) -> list[_Block]:
    return list({id(block): block for block in blocks.values()}.values())


def _stack(blocks: list[_Block]) -> int:
    """Place the largest blocks first, each as low as those that are needed at the same time allow."""
    placed: list[_Block] = []
    for block in sorted(blocks, key=lambda each: (-each.floats, each.first)):
        for other in sorted(filter(block.meets, placed), key=lambda each: each.offset):
            if block.offset + block.floats > other.offset and other.offset + other.floats > block.offset:
                block.offset = other.offset + other.floats
        placed.append(block)
    return max((block.offset + block.floats for block in placed), default=0)

"""A network cut in two: large maps run best item by item, small ones by vectors of items."""

from collections.abc import Mapping
from dataclasses import replace
from math import prod

from asni.engine.program.choices import Choice
from asni.engine.steps import Steps

_SECONDS_PER_FLOAT = 0.5e-9
"""What it takes to write a value between the parts and to read it again."""
_MOST_VALUES = 3


def crossing(steps: Steps, cut: int) -> tuple[str, ...]:
    """The values that steps before the cut make, or that are given, and that are needed behind it."""
    made = [*steps.inputs, *(step.output for step in steps.steps[:cut])]
    needed = {name for step in steps.steps[cut:] for name in step.inputs} | set(steps.outputs)
    return tuple(name for name in made if name in needed)


def cut_in_two(steps: Steps, cut: int) -> tuple[Steps, Steps]:
    """The steps before and behind the cut, which are networks of their own."""
    between = crossing(steps, cut)
    before = replace(steps, outputs=between, steps=steps.steps[:cut])
    after = replace(steps, inputs=between, steps=steps.steps[cut:])
    # A part that is the whole network keeps inputs that nothing needs, and the order of the outputs.
    return steps if not after.steps else before, steps if not before.steps else after


def best_cut(steps: Steps, plain: Mapping[int, float], lanes: Mapping[int, float]) -> int:
    """Before which step to go from items to vectors of items, by the seconds that each step takes per item in both.

    0 is vectors from the start, the number of steps is never.
    """
    count = len(steps.steps)
    possible = [cut for cut in range(count + 1) if len(crossing(steps, cut)) <= _MOST_VALUES]

    def cost(cut: int) -> float:
        work = sum(plain.get(number, 0.0) for number in range(cut))
        work += sum(lanes.get(number, 0.0) for number in range(cut, count))
        if cut in (0, count):
            return work + (lanes if cut == 0 else plain).get(-1, 0.0)
        floats = sum(prod(steps.shapes[name]) for name in crossing(steps, cut))
        return work + plain.get(-1, 0.0) + _SECONDS_PER_FLOAT * floats

    return min(possible or [0], key=cost)


def behind(choices: Mapping[int, Choice], cut: int) -> dict[int, Choice]:
    """The choices of the steps behind a cut, by their numbers there."""
    return {number - cut: choice for number, choice in choices.items() if number >= cut}

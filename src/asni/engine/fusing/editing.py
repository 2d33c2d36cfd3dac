"""Steps that can be changed: who makes a value, and who uses it."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import replace

from asni.engine.steps import Shape, Step, Steps

ALLOWED_ELEMENTS = 2**26


class Editor:
    """The steps by what they make, in the order in which they run.

    `position` says which of two runs later, and `elements` how many elements of constants may still be calculated.
    """

    def __init__(self, steps: Steps) -> None:
        self.steps = {step.output: step for step in steps.steps}
        self.shapes = dict(steps.shapes)
        self.outputs = frozenset(steps.outputs)
        self.position = {name: index for index, name in enumerate(self.steps)}
        sizes = (array.size for step in steps.steps for array in step.constants.values())
        self.elements = ALLOWED_ELEMENTS + 4 * sum(sizes)
        self._uses = Counter(steps.outputs)
        self._users: dict[str, dict[str, int]] = defaultdict(dict)
        for step in steps.steps:
            self._count(step, 1)

    def maker(self, name: str) -> Step | None:
        """The step that makes a value; None for an input."""
        return self.steps.get(name)

    def uses(self, name: str) -> int:
        """How often a value is used."""
        return self._uses[name]

    def sole_maker(self, name: str) -> Step | None:
        """The step that makes a value, if the step that asks is the only use of it."""
        return self.steps.get(name) if self.uses(name) == 1 else None

    def put(self, step: Step, shape: Shape | None = None) -> None:
        """Make a value in another way, at the same place."""
        self._count(self.steps[step.output], -1)
        self.steps[step.output] = step
        self._count(step, 1)
        if shape is not None:
            self.shapes[step.output] = shape

    def bypass(self, step: Step) -> bool:
        """Let all users of a step read its input, which is the same; an output of the network keeps its name."""
        (kept,), dropped = step.inputs, step.output
        if dropped in self.outputs:
            if kept in self.outputs or kept not in self.steps:
                return False
            self._remove(dropped)
            self._rename(kept, dropped)
            return True
        self._redirect(dropped, kept)
        self._remove(dropped)
        return True

    def release(self, names: Iterable[str]) -> None:
        """Remove the steps that make these values, and what only they need, if nobody uses them any more."""
        waiting = list(names)
        while waiting:
            step = self.steps.get(waiting.pop())
            if step is not None and self.uses(step.output) == 0:
                self._remove(step.output)
                waiting.extend(step.inputs)

    def _redirect(self, old: str, new: str) -> None:
        for user in list(self._users[old]):
            step = self.steps[user]
            self.put(replace(step, inputs=tuple(new if name == old else name for name in step.inputs)))

    def _rename(self, old: str, new: str) -> None:
        step = replace(self.steps[old], output=new)
        self.shapes[new] = self.shapes[old]
        self._count(self.steps[old], -1)
        self.steps = {step.output if name == old else name: step if name == old else each
                      for name, each in self.steps.items()}  # fmt: skip
        self._count(step, 1)
        self.position[new] = self.position[old]
        self._redirect(old, new)

    def _remove(self, name: str) -> None:
        self._count(self.steps.pop(name), -1)

    def _count(self, step: Step, change: int) -> None:
        for name in step.inputs:
            self._uses[name] += change
            users = self._users[name]
            users[step.output] = users.get(step.output, 0) + change
            if not users[step.output]:
                del users[step.output]

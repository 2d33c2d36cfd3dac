"""Choose the kernel of every layer by timing it in place: in the whole program, between the layers around it."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from time import perf_counter

import numpy as np

from asni.engine.program.checking import can_run
from asni.engine.program.choices import Choice, Site, first_choices, second_choices
from asni.engine.program.drafting import Drafter
from asni.engine.program.layouts import Machine, Mode
from asni.engine.program.program import Memory, Program
from asni.engine.steps import Shape, Steps
from asni.errors import EngineError, shown

BIAS_TO_DENSE = 1.1
"""A sparse kernel must be this much faster than a dense one to be kept."""
_SECONDS = 0.03
_FEWEST, _MOST = 2, 30


@dataclass(frozen=True)
class Tuned:
    """The choice for each layer, by the number of its step, and the seconds that each step takes per item."""

    choices: Mapping[int, Choice]
    seconds: Mapping[int, float]


class Tuner:
    """Times the choices of all layers at once: each run of the program times one choice of every layer."""

    def __init__(self, steps: Steps, mode: Mode, machine: Machine, items: int) -> None:
        self.steps, self.mode, self.machine, self.items = steps, mode, machine, items
        self.groups = -(-items // machine.lanes) if mode == "lanes" else items
        self.sites: dict[int, Site] = {}
        self.times: dict[int, dict[Choice, float]] = {}
        random = np.random.default_rng(0)
        self.inputs = [
            np.asarray(random.standard_normal(batched(steps.shapes[name], items), np.float32)) for name in steps.inputs
        ]
        self.outputs = [np.empty(batched(steps.shapes[name], items), np.float32) for name in steps.outputs]

    def tune(self) -> Tuned:
        """Tiles and kernels first, then the sizes of blocks for those that won."""
        first: dict[int, list[Choice]] = {}

        def note(number: int, site: Site) -> Choice:
            self.sites[number] = site
            first[number] = first_choices(site, self.machine, zeros=False)
            return first[number][0]

        Drafter(self.steps, self.mode, self.machine, note, self.groups, zeros=False).run()
        self._time_all(first)
        self._time_all({number: second_choices(self.best(number), site) for number, site in self.sites.items()})
        choices = {number: self.best(number) for number in self.sites}
        return Tuned(choices, self._time(choices))

    def timed(self, choices: Mapping[int, Choice]) -> Tuned:
        """Take these choices, as they were kept in a plan."""
        return Tuned(choices, self._time(choices))

    def best(self, number: int) -> Choice:
        """The fastest choice of a layer, dense ones preferred."""
        times = self.times[number]
        return min(times, key=lambda choice: times[choice] * (BIAS_TO_DENSE if "sparse" in choice.kernel else 1))

    def _time_all(self, candidates: Mapping[int, list[Choice]]) -> None:
        for turn in range(max((len(each) for each in candidates.values()), default=0)):
            choices = {
                number: each[turn] if turn < len(each) else self.best(number) for number, each in candidates.items()
            }
            for number, seconds in self._time(choices).items():
                if number in choices:
                    known = self.times.setdefault(number, {})
                    known[choices[number]] = min(seconds, known.get(choices[number], inf))

    def _time(self, choices: Mapping[int, Choice]) -> dict[int, float]:
        """The shortest time of each step seen in a few runs."""
        program = build(self.steps, self.mode, self.machine, choices, self.groups)
        memory = Memory(program, self.groups, 1)
        seconds = np.full(len(program.operations), inf)
        begin, runs = perf_counter(), 0
        while runs < _FEWEST or (runs < _MOST and perf_counter() - begin < _SECONDS):
            memory.time(self.inputs, self.outputs, self.items, seconds)
            runs += 1
        found: dict[int, float] = {}
        for number, taken in zip(program.steps, seconds, strict=True):
            found[number] = found.get(number, 0.0) + float(taken) / self.items
        return found


def build(
    steps: Steps, mode: Mode, machine: Machine, choices: Mapping[int, Choice], groups: int, *, zeros: bool = False
) -> Program:
    """The program with these choices; layers without one take the first that can run them."""

    def choose(number: int, site: Site) -> Choice:
        choice = choices.get(number)
        if choice is not None and not can_run(choice, site, machine):
            name = shown(steps.steps[number].name)
            raise EngineError(f"the plan has a kernel that cannot run {name}; delete it to make a new one.")
        return choice or first_choices(site, machine, zeros=zeros)[0]

    return Program(Drafter(steps, mode, machine, choose, groups, zeros).run(), steps)


def batched(shape: Shape, items: int) -> Shape:
    """The shape of so many items; a value without dimensions belongs to a network that takes one."""
    return (items * shape[0], *shape[1:]) if shape else ()

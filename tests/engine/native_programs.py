"""Run steps in the native core with a given layout, kernel and number of threads, in memory that shows mistakes."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from unittest.mock import patch

import numpy as np

from asni.engine import native
from asni.engine.graph import Array
from asni.engine.program import choices, program
from asni.engine.program.arena import Lifetime
from asni.engine.program.calls import Draft
from asni.engine.program.checking import can_run
from asni.engine.program.choices import Choice, Site
from asni.engine.program.drafting import Drafter
from asni.engine.program.layouts import Machine, Mode
from asni.engine.program.program import Memory, Program
from asni.engine.program.tuning import batched
from asni.engine.program.types import core, tiles
from asni.engine.steps import Step, Steps

GAP = 64
"""Floats between two values."""
ISAS = [name for name, is_there in native.choice().supported.items() if is_there]


@contextmanager
def machine_of(isa: str) -> Iterator[Machine]:
    """Let the core run on an instruction set."""
    before = native.choice().isa
    try:
        core().asni_choose(native._in_core(isa))
        choices._compiled.cache_clear()
        yield Machine(core().asni_lanes())
    finally:
        core().asni_choose(native._in_core(before))
        choices._compiled.cache_clear()


def one_step(kind: str, inputs: Sequence[tuple[int, ...]], output: tuple[int, ...], **details: object) -> Steps:
    """A network of a single step; arrays among the details are its constants."""
    constants = {name: value for name, value in details.items() if isinstance(value, np.ndarray)}
    settings = {name: value for name, value in details.items() if name not in constants}
    names = tuple(f"x{index}" for index in range(len(inputs)))
    step = Step(kind, "step", names, "y", settings, constants)  # type: ignore[arg-type]
    return Steps(names, ("y",), (step,), {**dict(zip(names, inputs, strict=True)), "y": output})


def site_of(steps: Steps, mode: Mode, machine: Machine, groups: int) -> Site:
    """The only layer of a network as the choice of a kernel sees it."""
    found: list[Site] = []

    def note(number: int, site: Site) -> Choice:
        found.append(site)
        return choices.first_choices(site, machine, zeros=False)[0]

    Drafter(steps, mode, machine, note, groups, zeros=False).run()
    (site,) = found
    return site


def every_choice(site: Site, machine: Machine) -> list[Choice]:
    """All kernels that can run a layer, with all their tiles and with blocks of different sizes."""
    found = [Choice("sparse_row"), Choice("dense_row")]
    for tile, blocks, whole in product(tiles("sparse"), (1, 2, 3, site.x.shape[1]), (False, True)):
        found.append(Choice("sparse", tile[:4], blocks, whole))
    for tile, blocks, whole in product(tiles("dense"), (1, 7, 1000), (False, True)):
        found.append(Choice("dense", tile[:4], blocks, whole))
    found += [Choice("winograd", tile[:1], blocks) for tile, blocks in product(tiles("winograd"), (1, 3, 5, 40))]
    return [choice for choice in dict.fromkeys(found) if can_run(choice, site, machine)]


def run(
    steps: Steps,
    inputs: Sequence[Array],
    mode: Mode,
    machine: Machine,
    choice: Choice | None = None,
    *,
    zeros: bool = False,
    threads: int = 1,
) -> list[Array]:
    """The outputs of steps in memory that shows mistakes, and again as the engine lays it out, which must be the same.

    Each value lies alone between NaNs, and all memory is NaN but for the halos of maps, which are zeros: what is read
    and used without having been written becomes NaN, and what is written outside of a value is found afterwards.
    """
    items = len(inputs[0]) // shape[0] if (shape := steps.shapes[steps.inputs[0]]) else 1
    groups = -(-items // machine.lanes) if mode == "lanes" else items

    def choose(number: int, site: Site) -> Choice:
        return choice or choices.first_choices(site, machine, zeros=zeros)[0]

    draft = Drafter(steps, mode, machine, choose, groups, zeros).run()
    # Fewer groups than there are, so that a batch takes several turns.
    room = min(groups, 2 * threads + 1)
    usual, apart = Memory(Program(draft, steps), room, threads), apart_in_memory(draft, steps, room, threads)
    results = []
    for memory in (usual, apart.memory):
        results.append([np.empty(batched(steps.shapes[name], items), np.float32) for name in steps.outputs])
        finite = memory.run(inputs, results[-1], items)
        assert finite or memory is not usual, "a result is said to be infinite"
    assert np.isnan(apart.gaps()).all(), "something was written outside of all values"
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)
    return results[0]


@dataclass
class Apart:
    """Memory in which values lie apart, where in a group each begins, and which floats lie between them."""

    memory: Memory
    begins: dict[str, int]
    is_gap: Array

    def gaps(self) -> Array:
        """What lies between the values of all groups."""
        found: Array = self.memory._arena.reshape(-1, len(self.is_gap))[:, self.is_gap]
        return found


def apart_in_memory(draft: Draft, steps: Steps, room: int, threads: int) -> Apart:
    """A program whose values lie apart, in memory that is full of NaN."""
    with values_apart(-(-draft.margin // 16) * 16) as spans:
        memory = Memory(Program(draft, steps), room, threads)
    return full_of_nan(memory, spans)


@contextmanager
def values_apart(margin: int = 0) -> Iterator[list[tuple[Lifetime, int]]]:
    """The values of a program that is made meanwhile lie apart; yields them and where they begin."""
    spans: list[tuple[Lifetime, int]] = []

    def place(lifetimes: Sequence[Lifetime]) -> tuple[dict[str, int], int]:
        end = GAP
        for value in lifetimes:
            spans.append((value, margin + end))
            end += -(-value.floats // 16) * 16 + GAP
        return {value.name: begin - margin for value, begin in spans}, end

    with patch.object(program, "place", place):
        yield spans


def full_of_nan(memory: Memory, spans: Sequence[tuple[Lifetime, int]]) -> Apart:
    """Fill memory whose values lie apart; halos, and so all maps that have one, are zeros."""
    arena = memory._arena.reshape(memory.groups, -1)
    is_gap = np.ones(arena.shape[1], bool)
    arena[:] = memory._scratch[:] = np.nan
    for value, begin in spans:
        is_gap[begin : begin + value.floats] = False
        if value.geometry is not None:
            arena[:, begin : begin + value.floats] = 0
    return Apart(memory, {value.name: begin for value, begin in spans}, is_gap)

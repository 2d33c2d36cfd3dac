"""Run random networks in a core that was built with a sanitizer: python -m tests.engine.sanitized FOLDER COUNT.

The sanitizer ends the process at the first mistake. Memory is as tight as can be, and with AddressSanitizer the gaps
between values must not be touched.
"""

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from random import Random
from unittest.mock import patch

import numpy as np

from asni.engine import interpreter, native
from asni.engine.graph import Array
from asni.engine.program import program
from asni.engine.program.choices import Choice, Site
from asni.engine.program.drafting import Drafter
from asni.engine.program.layouts import MODES, Machine, Mode
from asni.engine.program.program import Memory, Program
from asni.engine.program.tuning import batched
from asni.engine.program.types import address, core
from asni.engine.steps import Steps
from tests.engine.native_programs import Apart, apart_in_memory, every_choice
from tests.engine.random_steps import random_steps


def run_all(machine: Machine, count: int, threads: int) -> None:
    """So many networks in both layouts, each layer with a kernel drawn from all that can run it."""
    for seed in range(count):
        random = Random(seed)
        steps = random_steps(random, random.randint(1, 8))
        items = 1 if steps.fixed_batch else random.choice([1, 2, 3, 9, 17, 40])
        draw = np.random.default_rng(seed)
        inputs = [draw.normal(size=batched(steps.shapes[name], items)).astype(np.float32) for name in steps.inputs]
        expected = interpreter.run(steps, inputs)
        for mode in MODES:
            for result, each in zip(
                _results(steps, inputs, items, mode, machine, random, threads), expected, strict=True
            ):
                assert np.allclose(result, each, 0, 1e-4 * max(1.0, np.abs(each).max(initial=0))), seed


def _results(
    steps: Steps, inputs: list[Array], items: int, mode: Mode, machine: Machine, random: Random, threads: int
) -> list[Array]:
    groups = -(-items // machine.lanes) if mode == "lanes" else items

    def choose(number: int, site: Site) -> Choice:
        return random.choice(every_choice(site, machine))

    draft = Drafter(steps, mode, machine, choose, groups, zeros=random.random() < 0.2).run()
    room = min(groups, threads + 1)
    outputs = [np.empty(batched(steps.shapes[name], items), np.float32) for name in steps.outputs]
    Memory(Program(draft, steps), room, threads).run(inputs, outputs, items)
    if draft.margin == 0:
        # Otherwise some kernel reads beside values on purpose, and uses nothing of it.
        apart = apart_in_memory(draft, steps, room, threads)
        with gaps_forbidden(apart):
            apart.memory.run(inputs, outputs, items)
    return outputs


@contextmanager
def gaps_forbidden(apart: Apart) -> Iterator[None]:
    """Let AddressSanitizer, if it watches, end the process at any access between the values."""
    sanitizer = ctypes.CDLL(None)
    if not hasattr(sanitizer, "__asan_poison_memory_region"):
        yield
        return
    poison, allow = sanitizer.__asan_poison_memory_region, sanitizer.__asan_unpoison_memory_region
    poison.argtypes = allow.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    every = np.tile(apart.is_gap, apart.memory.groups)
    start = address(apart.memory._arena)
    begin = 0
    for is_gap, floats in groupby(every):
        length = sum(1 for _ in floats)
        if is_gap:
            poison(start + 4 * begin, 4 * length)
        begin += length
    yield
    # NumPy gives small arrays of memory to others without a word to the sanitizer.
    allow(start, 4 * len(every))


@contextmanager
def watched(folder: Path) -> Iterator[Machine]:
    """Run the core in a folder, with nothing between the values and around the memory that is not needed."""
    native._loaded = native.load(folder, "")
    with (
        patch.object(program, "_PAGE", 1),
        patch.object(program, "_CACHE_LINE", 0),
        patch.object(program, "_zeros", lambda floats: np.zeros(floats, np.float32)),
    ):
        yield Machine(core().asni_lanes())


if __name__ == "__main__":
    with watched(Path(sys.argv[1])) as found:
        run_all(found, int(sys.argv[2]), threads=2)

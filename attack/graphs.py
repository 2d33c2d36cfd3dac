"""Hostile graphs in packed files that are sealed: each is refused by an error for a person, or runs, within its memory.

An attribute may ask for a legal network that would take hours: what a graph would take is known before it runs.
"""

import random
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np

from asni.engine.cost import macs
from asni.engine.engine import Engine
from asni.engine.frontends.from_packed import read_steps
from asni.engine.fusing import fuse
from asni.engine.graph import Array
from asni.engine.interpreter import run as interpreted
from asni.engine.steps import Steps
from asni.errors import AsniError
from attack.chunks import in_chunks
from attack.outcomes import Tally
from attack.small_graphs import originals
from attack.spoilt_graphs import Draft, spoil

MOST_MACS = 2**22
"""What takes more is not run; the graphs that are spoilt take a tenth of it."""


def _fused(steps: Steps, inputs: list[Array]) -> tuple[Array, ...]:
    return interpreted(fuse(steps), inputs)


def _compiled(steps: Steps, inputs: list[Array]) -> tuple[Array, ...]:
    """A few items one by one, and the others by vectors of them."""
    engine = Engine(fuse(steps))
    if steps.fixed_batch is not None:
        return _called(engine, inputs)
    few, others = (_called(engine, [each[part] for each in inputs]) for part in (slice(FEW), slice(FEW, None)))
    return tuple(map(np.concatenate, zip(few, others, strict=True)))


def _called(engine: Engine, inputs: list[Array]) -> tuple[Array, ...]:
    outputs = engine(*inputs)
    return outputs if isinstance(outputs, tuple) else (outputs,)


WAYS = (interpreted, _fused, _compiled)
"""The ways to run steps."""

FEW = 3
"""Items that fill less than half of a vector."""

LARGE = 1e15
"""The square of what is larger may overflow."""


def run(seed: int, amount: int) -> dict[str, int]:
    """Spoilt graphs, each read from a file and run."""
    drafts = [Draft.of(graph) for graph in originals()]
    tally = Tally()
    for number, outcome in enumerate(in_chunks(partial(_take_on, seed, drafts), amount)):
        tally.add(f"graphs --seed {seed}, case {number}", outcome)
    return tally.counts()


def spoilt(seed: int, drafts: list[Draft], number: int) -> Draft:
    """The graph of a case."""
    rng = random.Random(f"graphs {seed} {number}")
    draft = drafts[number % len(drafts)].copy()
    spoil(draft, rng)
    return draft


def _take_on(seed: int, drafts: list[Draft], number: int) -> str:
    path = Path("net.asni")
    try:
        spoilt(seed, drafts, number).write(path)
        steps = read_steps(path)
        if macs(steps) > MOST_MACS:
            return "too much to run"
        return "run" if _agree(steps) else "other numbers"
    except AsniError:
        return "refused"
    except MemoryError:
        return "memory"
    except Exception:
        return "traceback"


def _agree(steps: Steps) -> bool:
    """Whether every way to run the steps gives the same numbers, for a batch that is no multiple of a vector."""
    rng = np.random.default_rng(0)
    count = 1 if steps.fixed_batch is not None else FEW + 9
    shapes = [steps.shapes[name] for name in steps.inputs]
    inputs = [rng.normal(size=(count * shape[0], *shape[1:]) if shape else ()).astype(np.float32) for shape in shapes]
    expected, *others = (way(steps, inputs) for way in WAYS)
    return all(map(_close, expected * len(others), chain.from_iterable(others)))


def _close(one: Array, other: Array) -> bool:
    """Whether numbers differ by rounding alone; where some overflow, anything may become of it."""
    finite = np.isfinite(one).all() and np.abs(one).max(initial=0) < LARGE
    return one.shape == other.shape and (not finite or np.allclose(one, other, 1e-3, 1e-3 * np.abs(one).max(initial=0)))

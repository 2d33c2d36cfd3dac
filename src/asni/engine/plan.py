"""Which kernel runs each layer: made by timing, shown to the user, kept in a file so that it is not made twice."""

import json
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from asni.engine.native import choice as native_choice
from asni.engine.program.choices import TITLES, Choice
from asni.engine.program.layouts import MODES, Mode
from asni.engine.program.tuning import Tuned
from asni.engine.steps import Steps
from asni.errors import EngineError, shown
from asni.files import read_bounded, write_text

VERSION = 1
_LIMIT = 64 << 20


@dataclass(frozen=True)
class PlanRow:
    """A step as it runs: its kernel, the time of one item, and multiplications by nonzeros per second."""

    name: str
    kind: str
    density: float | None
    kernel: str
    milliseconds: float
    gmacs: float | None
    """Billions of multiplications by nonzeros per second; None for steps without weights."""
    peak: float | None
    """That, as a fraction of what one core can do."""


@dataclass(frozen=True)
class Plan:
    """What was chosen: a kernel for each layer, by layout, and the step before which items go into vectors."""

    choices: Mapping[Mode, Mapping[int, Choice]] = field(default_factory=dict)
    cut: int | None = None


def fingerprint(steps: Steps) -> int:
    """A checksum of the network: its steps, shapes and weights."""
    found = zlib.crc32(
        repr([(step.kind, step.inputs, step.output, dict(step.settings)) for step in steps.steps]).encode()
    )
    for step in steps.steps:
        for name, array in sorted(step.constants.items()):
            found = zlib.crc32(np.ascontiguousarray(array).tobytes(), zlib.crc32(name.encode(), found))
    return zlib.crc32(repr(sorted(steps.shapes.items())).encode(), found)


def read_plan(path: Path, steps: Steps) -> Plan:
    """The plan in a file, if it was made for this network and this instruction set; else an empty one."""
    try:
        content = json.loads(read_bounded(path, _LIMIT))
        if [content["version"], content["isa"], content["network"]] != _key(steps):
            return Plan()
        choices = {mode: {int(n): _choice(each) for n, each in content["choices"][mode].items()} for mode in MODES}
        cut = content["cut"]
        if cut is not None and not (type(cut) is int and 0 <= cut <= len(steps.steps)):
            raise ValueError("no such step")
        return Plan({mode: each for mode, each in choices.items() if each}, cut)
    except FileNotFoundError:
        return Plan()
    except OSError as error:
        raise EngineError(f"{shown(path)}: cannot be read: {error.strerror}") from error
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise EngineError(f"{shown(path)}: not a plan of asni, or damaged; delete it to make a new one.") from error


def write_plan(path: Path, steps: Steps, plan: Plan) -> None:
    """Keep a plan, whole or not at all. It only saves time: a folder that cannot be written to is no reason to fail."""
    version, isa, network = _key(steps)
    choices = {mode: {str(n): asdict(each) for n, each in plan.choices.get(mode, {}).items()} for mode in MODES}
    content = {"version": version, "isa": isa, "network": network, "cut": plan.cut, "choices": choices}
    with suppress(OSError):
        write_text(path, json.dumps(content, indent=1) + "\n")


def describe(steps: Steps, tuned: Mapping[Mode, Tuned], cut: int, peak: float) -> list[PlanRow]:
    """The steps as they run: before the cut item by item, behind it by vectors of items."""
    return [
        _row(steps, number, tuned["plain" if number < cut else "lanes"], peak) for number in range(len(steps.steps))
    ]


def _row(steps: Steps, number: int, tuned: Tuned, peak: float) -> PlanRow:
    step, taken = steps.steps[number], tuned.seconds.get(number, 0.0)
    if number not in tuned.choices:
        return PlanRow(step.name, step.kind, None, "", 1000 * taken, None, None)
    weight = step.constants["weight"]
    nonzeros = int(np.count_nonzero(weight))
    # How often each weight of a layer is multiplied: for every place of a map, for every row.
    uses = prod(steps.shapes[step.output]) // len(weight)
    rate = nonzeros * uses / taken / 1e9 if taken else 0.0
    kernel = TITLES[tuned.choices[number].kernel]
    return PlanRow(step.name, step.kind, nonzeros / weight.size, kernel, 1000 * taken, rate, rate / peak)


def _key(steps: Steps) -> list[Any]:
    return [VERSION, native_choice().isa, fingerprint(steps)]


def _choice(content: Mapping[str, Any]) -> Choice:
    if content["kernel"] not in TITLES:
        raise ValueError("unknown kernel")
    tile, blocks = tuple(int(each) for each in content["tile"]), int(content["blocks"])
    return Choice(content["kernel"], tile, blocks, bool(content["whole"]))

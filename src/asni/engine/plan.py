"""Which kernel runs each layer: made by timing, shown to the user, kept in a file so that it is not made twice."""

import json
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from asni.engine.native import choice as native_choice
from asni.engine.program.choices import TITLES, Choice
from asni.engine.program.layouts import Mode
from asni.engine.steps import Steps
from asni.errors import EngineError, shown
from asni.files import read_bounded, write_atomically

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


Choices = Mapping[Mode, Mapping[int, Choice]]


def fingerprint(steps: Steps) -> int:
    """A checksum of the network: its steps, shapes and weights."""
    found = zlib.crc32(repr([(step.kind, step.inputs, step.output, dict(step.settings)) for step in steps.steps]).encode())
    for step in steps.steps:
        for name, array in sorted(step.constants.items()):
            found = zlib.crc32(np.ascontiguousarray(array).tobytes(), zlib.crc32(name.encode(), found))
    return zlib.crc32(repr(sorted(steps.shapes.items())).encode(), found)


def read_plan(path: Path, steps: Steps) -> dict[Mode, dict[int, Choice]]:
    """The choices in a file, if they were made for this network and this instruction set; else none."""
    try:
        content = json.loads(read_bounded(path, _LIMIT))
        if [content["version"], content["isa"], content["network"]] != _key(steps):
            return {}
        return {mode: {int(n): _choice(c) for n, c in each.items()} for mode, each in content["choices"].items()}
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise EngineError(f"{shown(path)}: cannot be read: {error.strerror}") from error
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise EngineError(f"{shown(path)}: not a plan of asni, or damaged; delete it to make a new one") from error


def write_plan(path: Path, steps: Steps, choices: Choices) -> None:
    """Keep the choices, whole or not at all."""
    version, isa, network = _key(steps)
    each = {mode: {str(number): asdict(made) for number, made in found.items()} for mode, found in choices.items()}
    content = {"version": version, "isa": isa, "network": network, "choices": each}
    text = json.dumps(content, indent=1)
    write_atomically(path, lambda temporary: temporary.write_text(text))


def describe(steps: Steps, choices: Mapping[int, Choice], seconds: Mapping[int, float], items: int, peak: float) -> list[PlanRow]:
    """The steps with what they take per item."""
    rows = []
    for number, step in enumerate(steps.steps):
        if step.kind in ("reshape",) and number not in seconds:
            continue
        weight = step.constants.get("weight") if number in choices else None
        taken = seconds.get(number, 0.0) / items
        nonzeros = None if weight is None else int(np.count_nonzero(weight))
        rate = None
        if weight is not None and nonzeros is not None and taken:
            shape = steps.shapes[step.output]
            uses = int(np.prod(shape)) // weight.shape[0]
            rate = nonzeros * uses / taken / 1e9
        rows.append(
            PlanRow(
                step.name,
                step.kind,
                None if weight is None or nonzeros is None else nonzeros / max(1, weight.size),
                TITLES[choices[number].kernel] if number in choices else "",
                1000 * taken,
                rate,
                None if rate is None else rate / peak,
            )
        )
    return rows


def _key(steps: Steps) -> list[Any]:
    return [VERSION, native_choice().isa, fingerprint(steps)]


def _choice(content: Mapping[str, Any]) -> Choice:
    if content["kernel"] not in TITLES:
        raise ValueError("unknown kernel")
    tile, blocks = tuple(int(each) for each in content["tile"]), int(content["blocks"])
    return Choice(content["kernel"], tile, blocks, bool(content["whole"]))

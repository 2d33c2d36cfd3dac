"""One .c and one .h file from the steps of a network."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np

from asni.engine.c_export.arena import arranged
from asni.engine.c_export.calls import Calls
from asni.engine.c_export.checking import check_program
from asni.engine.c_export.source import Source, uses_libm
from asni.engine.c_export.weights import LAYERS, Precision
from asni.engine.graph import Array
from asni.engine.steps import Steps
from asni.errors import EngineError, UsageError, shown
from asni.files import write_text

MARK = "/* Written by `asni export`"
_STORED = {
    "exact": "in float32, bit for bit",
    "half": "in half precision",
    "int8": "in 8 bits, with one scale per output",
}


@dataclass(frozen=True)
class Exported:
    """The files that were written, the bytes of their tables, and of the memory that a call needs."""

    source: Path
    header: Path
    table_bytes: int
    scratch_bytes: int


def write_c(
    steps: Steps,
    folder: Path,
    name: str,
    *,
    precision: Precision = "exact",
    example: Sequence[Array] | None = None,
    dense: bool = False,
) -> Exported:
    """Write NAME.c and NAME.h to a folder: a function NAME_run for one item, with its weights.

    The `main` in it, compiled with -DNAME_TEST, checks `example`, or else numbers that it makes itself. `dense` stores
    and multiplies by zeros too, to compare with.
    """
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name):
        raise UsageError(f"{shown(name)} is not the beginning of a name in C.")
    for value, shape in steps.shapes.items():
        if prod(shape) == 0:
            raise EngineError(f"{shown(value)} has the shape {shape}: there is nothing to compute.")
    files = folder / f"{name}.c", folder / f"{name}.h"
    for path in files:
        _require_ours(path)
    source, floats = _translated(steps, precision, dense)
    scratch, signature = max(floats, 1), _signature(steps, name)
    text = _source(source, steps, name, signature, precision)
    text += "\n" + check_program(steps, name, precision, example)
    write_text(files[0], text)
    write_text(files[1], _header(steps, source, name, signature, scratch, precision, uses_libm(text)))
    return Exported(*files, source.table_bytes, 4 * scratch)


def _require_ours(path: Path) -> None:
    """Raise an error before a file is replaced that somebody else wrote."""
    if path.is_file():
        with path.open("rb") as file:
            if file.read(len(MARK)) == MARK.encode():
                return
    if path.exists():
        raise UsageError(f"{shown(path)} exists, and is not a file that `asni export` wrote. Choose another directory.")


def _translated(steps: Steps, precision: Precision, dense: bool) -> tuple[Source, int]:
    """The calls and tables of all steps, and how many numbers of scratch memory they need."""
    constants = {step.output: f"step{i}_value" for i, step in enumerate(steps.steps) if step.kind == "constant"}
    inputs, outputs = _parameters("input", steps.inputs), _parameters("output", steps.outputs)
    arena = arranged(steps, dict(zip(steps.inputs, inputs, strict=True)), tuple(outputs), constants)
    source = Source(arena.places, steps.shapes)
    calls = Calls(source, precision, dense)
    for index, step in enumerate(steps.steps):
        calls.add(step, index)
    for value, place in arena.copies:
        source.call("copy", arena.places[value], place, prod(steps.shapes[value]))
    return source, arena.floats


def _parameters(what: str, values: Sequence[str]) -> list[str]:
    return [what] if len(values) == 1 else [f"{what}_{i}" for i in range(len(values))]


def _signature(steps: Steps, name: str) -> str:
    inputs = [f"const float *{each}" for each in _parameters("input", steps.inputs)]
    outputs = [f"float *{each}" for each in _parameters("output", steps.outputs)]
    return f"int {name}_run({', '.join([*inputs, *outputs, 'float *scratch'])})"


def _source(source: Source, steps: Steps, name: str, signature: str, precision: Precision) -> str:
    parameters, calls = [*_parameters("input", steps.inputs), "scratch"], "\n".join(source.calls)
    unused = [each for each in parameters if not re.search(rf"\b{each}\b", calls)]
    lines = [f"(void){each};" for each in unused] + source.calls + ["return 0;"]
    body = "".join(f"    {line}\n" for line in lines)
    return (
        f"{MARK}; {name}.h says how to use it. */\n\n"
        f'#include "{name}.h"\n\n#include <limits.h>\n#include <math.h>\n#include <stdint.h>\n\n'
        f'#if INT_MAX < 2147483647\n#error "int must have at least 32 bits"\n#endif\n\n'
        f"{source.kernels(precision)}\n\n{''.join(source.tables)}\n{signature}\n{{\n{body}}}\n"
    )


def _header(
    steps: Steps, source: Source, name: str, signature: str, scratch: int, precision: Precision, libm: bool
) -> str:
    big, library = name.upper(), "Link with -lm." if libm else "No library is needed."
    weights = [step.constants["weight"] for step in steps.steps if step.kind in LAYERS]
    nonzeros, size = sum(int(np.count_nonzero(each)) for each in weights), sum(each.size for each in weights)
    names = [*_parameters("input", steps.inputs), *_parameters("output", steps.outputs)]
    shapes = [steps.shapes[value] for value in (*steps.inputs, *steps.outputs)]
    sizes = "".join(
        f"#define {big}_{each.upper()}_FLOATS {prod(shape)} /* {'x'.join(map(str, shape))} */\n"
        for each, shape in zip(names, shapes, strict=True)
    )
    return f"""{MARK}.
 *
 * {nonzeros:,} of {size:,} weights are not zero. They are stored {_STORED[precision]}.
 *
 * Constant tables (flash)   {source.table_bytes:>12,} bytes
 * Scratch (RAM)             {4 * scratch:>12,} bytes, to be given by the caller
 * Inputs and outputs (RAM)  {4 * sum(map(prod, shapes)):>12,} bytes, to be given by the caller
 *
 * There is no other state and no malloc: several threads may call {name}_run, each with its own scratch. Inputs,
 * outputs and scratch must not overlap. Compile without -ffast-math. {library}
 * To check it on a device: compile {name}.c with -D{big}_TEST, which adds a main.
 */
#ifndef {big}_H
#define {big}_H

{sizes}#define {big}_SCRATCH_FLOATS {scratch}

#ifdef __cplusplus
extern "C" {{
#endif

/* One item. Returns 0, or 1 if NaN or infinity meets a layer whose zeros are left out: outputs are then undefined. */
{signature};

#ifdef __cplusplus
}}
#endif

#endif
"""

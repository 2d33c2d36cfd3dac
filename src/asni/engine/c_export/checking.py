"""The check that an exported file carries: an input, what must come out, and a `main` that compares."""

from collections.abc import Sequence
from math import prod

import numpy as np

from asni.engine.c_export.source import table
from asni.engine.c_export.weights import Precision, with_rounded_weights
from asni.engine.graph import Array
from asni.engine.interpreter import run
from asni.engine.steps import Steps
from asni.errors import EngineError

TOLERANCE = 1e-4
"""Of the largest output: sums in another order differ by less, a wrong weight by more."""
_FACTOR, _INCREMENT = 1664525, 1013904223

_RANDOM = f"""
/* Numbers in [-1, 1), the same on every machine. */
static void test_input(uint32_t state, float *x, int n)
{{
    int i;
    for (i = 0; i < n; i++) {{
        state = state * {_FACTOR}u + {_INCREMENT}u;
        x[i] = (float)(state >> 8) / 8388608.0f - 1.0f;
    }}
}}
"""

_COMPARE = """
/* The largest difference from what was expected; NaN counts as infinity. */
static float largest_error(const float *y, const float *expected, int n)
{
    float largest = 0.0f;
    int i;
    for (i = 0; i < n; i++) {
        float error = y[i] < expected[i] ? expected[i] - y[i] : y[i] - expected[i];
        if (!(error <= largest))
            largest = error == error ? error : INFINITY;
    }
    return largest;
}
"""


def random_input(seed: int, count: int) -> Array:
    """The numbers that `test_input` makes in C."""
    states, state = np.empty(count, np.uint32), seed
    for index in range(count):
        state = (state * _FACTOR + _INCREMENT) % 2**32
        states[index] = state
    return ((states >> 8) / 2**23 - 1).astype(np.float32)


def check_program(steps: Steps, name: str, precision: Precision, example: Sequence[Array] | None) -> str:
    """A `main` for a C file: it prints the largest error, and exits with 0 if that is small."""
    shapes = [steps.shapes[value] for value in steps.inputs]
    if example is None:
        inputs = [random_input(seed, prod(shape)).reshape(shape) for seed, shape in enumerate(shapes, 1)]
    else:
        inputs = [np.asarray(each, np.float32).reshape(shape) for each, shape in zip(example, shapes, strict=True)]
    outputs = run(with_rounded_weights(steps, precision), inputs)
    if not all(np.isfinite(each).all() for each in outputs):
        raise EngineError("the network gives NaN or infinity for the test input, so that nothing could be compared.")
    given = "" if example is None else "".join(table(f"input_{i}", each) for i, each in enumerate(inputs))
    expected = "".join(table(f"expected_{i}", np.asarray(each, np.float32)) for i, each in enumerate(outputs))
    made = _RANDOM if example is None else ""
    limit = TOLERANCE * max(float(np.abs(each).max()) for each in outputs)
    body = _main(name, inputs, outputs, example is None, limit)
    return f"#ifdef {name.upper()}_TEST\n#include <stdio.h>\n\n{given}{expected}{made}{_COMPARE}\n{body}#endif\n"


def _main(name: str, inputs: Sequence[Array], outputs: Sequence[Array], is_made: bool, limit: float) -> str:
    arrays = [f"output_{i}[{each.size}]" for i, each in enumerate(outputs)]
    if is_made:
        arrays += [f"input_{i}[{each.size}]" for i, each in enumerate(inputs)]
    arguments = [f"input_{i}" for i in range(len(inputs))] + [f"output_{i}" for i in range(len(outputs))]
    lines = [f"static float {', '.join(arrays)}, scratch[{name.upper()}_SCRATCH_FLOATS];"]
    lines += [f"float error, largest = 0.0f, limit = {np.float32(limit)!s}f;"]
    if is_made:
        lines += [f"test_input({i + 1}, input_{i}, {each.size});" for i, each in enumerate(inputs)]
    lines += [f"if ({name}_run({', '.join(arguments)}, scratch) != 0)", "    largest = INFINITY;"]
    for i, each in enumerate(outputs):
        lines += [f"error = largest_error(output_{i}, expected_{i}, {each.size});"]
        lines += ["largest = error > largest ? error : largest;"]
    lines += [
        'printf("%s: largest error %g, allowed %g\\n", largest <= limit ? "PASS" : "FAIL", (double)largest,',
        "       (double)limit);",
        "return largest <= limit ? 0 : 1;",
    ]
    return "int main(void)\n{\n" + "".join(f"    {line}\n" for line in lines) + "}\n"

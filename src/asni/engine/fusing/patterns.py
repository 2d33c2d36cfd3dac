"""Rules that recognise a function which a tool has written in several operators."""

from dataclasses import replace
from math import isclose, sqrt

import numpy as np

from asni.engine.fusing.editing import Editor
from asni.engine.steps import Activation, Step

CLOSE = 1e-4
"""How exactly the constants of a function must be met: half precision is enough."""
DEEPEST = 4


def find_square(editor: Editor, step: Step) -> bool:
    """x to the power of 2 is x * x."""
    if not _is_binary(step, "pow") or _number(step, "b") != 2 or not _keeps_shape(editor, step):
        return False
    editor.put(replace(step, inputs=step.inputs * 2, settings={"function": "mul"}, constants={}))
    return True


def find_gated(editor: Editor, step: Step) -> bool:
    """x * sigmoid(x) is SiLU, and x * hard_sigmoid(x) with the usual numbers is hard-swish."""
    if not _is_binary(step, "mul") or len(step.inputs) != 2:
        return False
    for x, gate in (step.inputs, step.inputs[::-1]):
        maker = editor.maker(gate)
        if maker is None or maker.kind != "unary" or maker.inputs != (x,):
            continue
        activation = maker.settings["activation"]
        if activation.function == "sigmoid":
            return _becomes(editor, step, x, "silu")
        usual = isclose(activation.low, 1 / 6, rel_tol=CLOSE) and activation.high == 0.5
        if activation.function == "hard_sigmoid" and usual:
            return _becomes(editor, step, x, "hard_swish")
    return False


def find_gelu(editor: Editor, step: Step) -> bool:
    """0.5 * x * (1 + erf(x / sqrt(2))) is GELU, in whichever order it is multiplied."""
    factors, scale = _factors(editor, step, DEEPEST)
    if len(factors) != 2 or not isclose(scale, 0.5, rel_tol=CLOSE):
        return False
    return any(_is_gate_of_gelu(editor, gate, x) and _becomes(editor, step, x, "gelu")
               for x, gate in (factors, factors[::-1]))  # fmt: skip


def _is_gate_of_gelu(editor: Editor, gate: str, x: str) -> bool:
    """Whether a value is 1 + erf(x / sqrt(2))."""
    plus = editor.maker(gate)
    if plus is None or not _is_binary(plus, "add") or 1 not in (_number(plus, "a"), _number(plus, "b")):
        return False
    erf = editor.maker(plus.inputs[0])
    if erf is None or erf.kind != "unary" or erf.settings["activation"].function != "erf":
        return False
    divided = editor.maker(erf.inputs[0])
    factors, scale = ([], 0.0) if divided is None else _factors(editor, divided, 1)
    return factors == [x] and isclose(scale, sqrt(0.5), rel_tol=CLOSE)


def _factors(editor: Editor, step: Step, depth: int) -> tuple[list[str], float]:
    """What a product multiplies, through products that nobody else uses: values, and numbers as one."""
    scale = _multiplier(step)
    if scale is None:
        return [step.output], 1.0
    factors: list[str] = []
    for name in step.inputs:
        maker = editor.sole_maker(name) if depth else None
        inner, more = ([name], 1.0) if maker is None else _factors(editor, maker, depth - 1)
        factors += inner
        scale *= more
    return factors, scale


def _multiplier(step: Step) -> float | None:
    """The number in a product: 1 if it is of two values, None if a step is no product."""
    if _is_binary(step, "mul"):
        number = _number(step, "a") if "a" in step.constants else _number(step, "b")
        return 1.0 if len(step.inputs) == 2 else number
    divisor = _number(step, "b") if _is_binary(step, "div") else None
    return 1 / divisor if divisor else None


def find_layer_norm(editor: Editor, step: Step) -> bool:
    """(x - mean(x)) / sqrt(mean((x - mean(x))^2) + epsilon) is a layer norm, if means are over the last dimensions."""
    if not _is_binary(step, "div") or len(step.inputs) != 2:
        return False
    centred, root = (editor.maker(name) for name in step.inputs)
    plus = _argument(editor, root, "sqrt")
    variance = editor.maker(plus.inputs[0]) if plus is not None and _is_binary(plus, "add") else None
    if centred is None or plus is None or variance is None or variance.kind != "mean":
        return False
    square, epsilon = editor.maker(variance.inputs[0]), _number(plus, "a")
    epsilon = _number(plus, "b") if epsilon is None else epsilon
    if square is None or epsilon is None or not _is_binary(square, "mul") or len(square.inputs) != 2:
        return False
    x, axes = centred.inputs[0], variance.settings["axes"]
    rank = len(editor.shapes[x])
    trailing = axes == tuple(range(rank - len(axes), rank))
    if not trailing or not all(_is_centred(editor, name, x, axes) for name in (centred.output, *square.inputs)):
        return False
    shape = editor.shapes[x][rank - len(axes) :]
    constants = {"weight": np.ones(shape, np.float32), "bias": np.zeros(shape, np.float32)}
    settings = {"dimensions": len(axes), "epsilon": epsilon}
    editor.put(Step("layer_norm", step.name, (x,), step.output, settings, constants))
    return True


def _argument(editor: Editor, step: Step | None, function: str) -> Step | None:
    """What makes the argument of a function."""
    if step is None or step.kind != "unary" or step.settings["activation"].function != function:
        return None
    return editor.maker(step.inputs[0])


def _is_centred(editor: Editor, name: str, x: str, axes: tuple[int, ...]) -> bool:
    """Whether a value is x minus its mean."""
    minus = editor.maker(name)
    if minus is None or not _is_binary(minus, "sub") or len(minus.inputs) != 2 or minus.inputs[0] != x:
        return False
    mean = editor.maker(minus.inputs[1])
    fits = mean is not None and mean.kind == "mean" and mean.inputs == (x,) and mean.settings["axes"] == axes
    return fits and _keeps_shape(editor, minus)


def _is_binary(step: Step, *functions: str) -> bool:
    return step.kind == "binary" and step.settings["function"] in functions


def _number(step: Step, side: str) -> float | None:
    """The constant of a binary step, if it is one number."""
    array = step.constants.get(side)
    return float(array.reshape(())) if array is not None and array.size == 1 else None


def _keeps_shape(editor: Editor, step: Step) -> bool:
    return editor.shapes[step.inputs[0]] == editor.shapes[step.output]


def _becomes(editor: Editor, step: Step, x: str, function: str) -> bool:
    """Replace a step by a function of x, if that has its shape."""
    if editor.shapes[x] != editor.shapes[step.output]:
        return False
    activation = Activation(function)  # type: ignore[arg-type]
    editor.put(Step("unary", step.name, (x,), step.output, {"activation": activation}))
    return True


RULES = (find_square, find_gelu, find_gated, find_layer_norm)

"""Rules about constants."""

from dataclasses import replace
from math import prod

import numpy as np

from asni.engine.fusing.editing import Editor
from asni.engine.interpreter import run_step
from asni.engine.steps import Step

ALLOWED_PRODUCTS = 2**28
"""What a matrix product of constants may cost to be calculated beforehand."""


def fold_constants(editor: Editor, step: Step) -> bool:
    """A step of which all inputs are constants is one; within bounds, which only a hostile network reaches."""
    makers = [editor.maker(name) for name in step.inputs]
    values = [maker.constants["value"] for maker in makers if maker is not None and maker.kind == "constant"]
    size = prod(editor.shapes[step.output])
    if not step.inputs or len(values) < len(step.inputs) or size > editor.elements:
        return False
    if step.kind in ("conv", "linear", "matmul") and size * values[0].size > ALLOWED_PRODUCTS:
        return False
    editor.elements -= size
    with np.errstate(all="ignore"):
        value = run_step(step, values, editor.shapes[step.output])
    editor.put(Step("constant", step.name, (), step.output, constants={"value": value}))
    return True


def put_constant_into_binary(editor: Editor, step: Step) -> bool:
    """A binary step holds the constant that it needs."""
    if step.kind != "binary" or len(step.inputs) != 2:
        return False
    for side, name, other in (("a", *step.inputs), ("b", *step.inputs[::-1])):
        maker = editor.maker(name)
        if maker is not None and maker.kind == "constant":
            editor.put(replace(step, inputs=(other,), constants={side: maker.constants["value"]}))
            return True
    return False


RULES = (fold_constants, put_constant_into_binary)

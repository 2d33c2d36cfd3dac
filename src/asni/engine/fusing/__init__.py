"""Fewer steps with the same results: constants are folded, what moves nothing is dropped, epilogues are fused.

Each rule looks at one step and what makes its inputs, and changes both if it applies. Rules run one after another over
all steps until none applies.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from asni.engine.fusing import arranging, constants, epilogues, patterns
from asni.engine.fusing.editing import Editor
from asni.engine.steps import Step, Steps

RULES = (*constants.RULES, *patterns.RULES, *arranging.RULES, *epilogues.RULES)
MOST_ROUNDS = 50
"""Ordinary networks need a few rounds; steps are right after any number of them."""


def fuse(steps: Steps) -> Steps:
    """Steps with the same results that take less time."""
    editor = Editor(steps)
    editor.release([step.output for step in reversed(steps.steps)])
    for _ in range(MOST_ROUNDS):
        if not sum(_apply(rule, editor) for rule in RULES):
            break
    fused = tuple(_with_plain_constants(step) for step in editor.steps.values())
    named = {*steps.inputs, *editor.steps}
    shapes = {name: shape for name, shape in editor.shapes.items() if name in named}
    return replace(steps, steps=fused, shapes=shapes)


def _apply(rule: Callable[[Editor, Step], bool], editor: Editor) -> bool:
    changed = False
    editor.position = {name: index for index, name in enumerate(editor.steps)}
    for name in list(editor.steps):
        step = editor.maker(name)
        if step is not None and rule(editor, step):
            changed = True
            editor.release(step.inputs)
    return changed


def _with_plain_constants(step: Step) -> Step:
    plain = {name: np.ascontiguousarray(array, np.float32) for name, array in step.constants.items()}
    return replace(step, constants=plain)

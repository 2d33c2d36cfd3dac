"""Fewer steps with the same results: a residual goes into the batch norm before it, a ReLU into what it follows."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from asni.sparse.steps import Step, Steps

ENDS_WITH_RELU = ("conv", "linear", "batch_norm", "add")


def fused(steps: Steps) -> Steps:
    """The same network in fewer steps; a step that takes over another one stands in its place."""
    reads = Counter([steps.output, *(name for step in steps.steps for name in step.inputs)])
    made: dict[str, Step] = {}
    for step in steps.steps:
        into = _maker_for_residual(step, made, reads) or _maker_for_relu(step, made, reads)
        made[step.output] = step if into is None else _merged(made.pop(into), step)
    shapes = {name: steps.shapes[name] for name in (steps.input, *made)}
    return replace(steps, steps=tuple(made.values()), shapes=shapes)


def _maker_for_residual(step: Step, made: dict[str, Step], reads: Counter[str]) -> str | None:
    """The batch norm that can take over an addition: of two, the one that was computed last."""
    if step.kind != "add" or len(step.inputs) != 2:
        return None
    for name in reversed(made):
        maker = made[name]
        if name in step.inputs and reads[name] == 1 and maker.kind == "batch_norm":
            # Its gradient and that of the residual must be different arrays.
            alone = len(maker.inputs) == 1 and _other(step, name) != maker.inputs[0]
            if alone and not maker.settings["relu"]:
                return name
    return None


def _maker_for_relu(step: Step, made: Mapping[str, Step], reads: Counter[str]) -> str | None:
    if step.kind != "add" or len(step.inputs) != 1:
        return None
    (name,) = step.inputs
    return name if name in made and reads[name] == 1 and made[name].kind in ENDS_WITH_RELU else None


def _merged(maker: Step, step: Step) -> Step:
    residual = tuple(name for name in step.inputs if name != maker.output)
    settings = {**maker.settings, "relu": maker.settings["relu"] or step.settings["relu"]}
    return replace(maker, inputs=maker.inputs + residual, output=step.output, settings=settings)


def _other(step: Step, name: str) -> str:
    return step.inputs[1 - step.inputs.index(name)]

"""Rules that put what follows a convolution or a linear layer into it."""

from dataclasses import replace

import numpy as np

from asni.engine.fusing.editing import Editor
from asni.engine.graph import Array
from asni.engine.steps import Shape, Step

FUSED_ACTIVATIONS = ("relu", "clip", "leaky_relu")


def fuse_scale(editor: Editor, step: Step) -> bool:
    """A factor or a summand for each channel, as of a batch norm, goes into the weights and the bias before it."""
    if step.kind != "binary" or len(step.inputs) != 1:
        return False
    maker, shape = _open_maker(editor, step.inputs[0]), editor.shapes[step.output]
    if maker is None or editor.shapes[maker.output] != shape:
        return False
    (side, constant), bias = next(iter(step.constants.items())), maker.constants["bias"]
    channels = _for_each_channel(maker, constant, shape)
    if channels is None:
        return False
    weight = maker.constants["weight"]
    column = channels.reshape(channels.shape + (1,) * (weight.ndim - channels.ndim))
    function = step.settings["function"]
    with np.errstate(all="ignore"):
        scaled, summed = _scaled(function, side, weight, column), _summed(function, side, bias, channels)
        if scaled is None or summed is None:
            return False
        constants = {"weight": scaled.astype(np.float32), "bias": summed.astype(np.float32)}
    if not all(np.isfinite(each).all() for each in constants.values()):
        return False
    editor.put(replace(maker, output=step.output, constants=constants))
    return True


def _open_maker(editor: Editor, name: str) -> Step | None:
    """The layer that makes a value which is used once, if nothing is fused behind its sum."""
    maker = editor.sole_maker(name)
    if maker is None or maker.kind not in ("conv", "linear", "layer_norm"):
        return None
    return maker if len(maker.inputs) == 1 and maker.settings.get("activation") is None else None


def _for_each_channel(maker: Step, constant: Array, shape: Shape) -> Array | None:
    """A constant in the shape of the bias, if it is the same along all other dimensions."""
    bias = maker.constants["bias"]
    first = 1 if maker.kind == "conv" else len(shape) - bias.ndim
    aligned = constant.reshape((1,) * (len(shape) - constant.ndim) + constant.shape)
    own = range(first, first + bias.ndim)
    if any(size != 1 for axis, size in enumerate(aligned.shape) if axis not in own):
        return None
    return np.broadcast_to(aligned.reshape([aligned.shape[axis] for axis in own]), bias.shape).astype(np.float64)


def _scaled(function: str, side: str, weight: Array, constant: Array) -> Array | None:
    match function, side:
        case "mul", _:
            return weight * constant
        case "div", "b":
            return weight / constant
        case ("add", _) | ("sub", "b"):
            return weight
        case "sub", "a":
            return -weight
    return None


def _summed(function: str, side: str, bias: Array, constant: Array) -> Array | None:
    match function, side:
        case "add", _:
            return bias + constant
        case "sub", "b":
            return bias - constant
        case "sub", "a":
            return constant - bias
    return _scaled(function, side, bias, constant)


def fuse_residual(editor: Editor, step: Step) -> bool:
    """A sum is made where one of its summands is: of two layers, in the one that runs later."""
    if step.kind != "binary" or step.settings["function"] != "add" or len(step.inputs) != 2:
        return False
    if len({editor.shapes[name] for name in (*step.inputs, step.output)}) != 1:
        return False
    makers = [(maker, other) for name, other in (step.inputs, step.inputs[::-1])
              if (maker := _open_maker(editor, name)) is not None and maker.kind != "layer_norm"]  # fmt: skip
    if not makers:
        return False
    maker, other = max(makers, key=lambda pair: editor.position[pair[0].output])
    editor.put(replace(maker, inputs=(*maker.inputs, other), output=step.output))
    return True


def fuse_activation(editor: Editor, step: Step) -> bool:
    """An activation that needs no table or series is applied before the sum leaves the registers."""
    if step.kind != "unary" or step.settings["activation"].function not in FUSED_ACTIVATIONS:
        return False
    maker = editor.sole_maker(step.inputs[0])
    if maker is None or maker.kind not in ("conv", "linear") or maker.settings.get("activation") is not None:
        return False
    settings = {**maker.settings, "activation": step.settings["activation"]}
    editor.put(replace(maker, output=step.output, settings=settings))
    return True


RULES = (fuse_scale, fuse_residual, fuse_activation)

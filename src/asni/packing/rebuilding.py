"""A packed file back to a network that runs."""

from pathlib import Path
from typing import TYPE_CHECKING

from asni.errors import PackError
from asni.packing.convert import to_torch
from asni.packing.reading import read

if TYPE_CHECKING:
    from torch import nn


def rebuild(path: str | Path, *, trust_code: bool = False) -> "nn.Module":
    """The network in a file, with its weights; an amenable one at its start: biases 0, normalisation (1, 0).

    A network named by an import path is code that the file chose: it is imported only if you trust it.
    """
    from asni.masks import prunable
    from asni.networks import build, reset_biases_and_norms

    packed = read(path)
    network = packed.network
    if not {"name", "shape", "classes"} <= network.keys() or len(network["shape"]) != 3:
        raise PackError(f"{path} does not say how its network is built; load its weights into your own with asni.load")
    if ":" in network["name"] and not trust_code:
        raise PackError(f"{path} would import {network['name']}; if you trust that code, say so with --trust-code")
    channels, height, width = network["shape"]
    model = build(network["name"], (channels, height, width), network["classes"], network.get("options"))
    state = to_torch(packed.tensors)
    complete = packed.mode != "amenable"
    wanted = model.state_dict() if complete else prunable(model)
    if wrong := [name for name in {**wanted, **state} if name not in state or name not in wanted
                 or state[name].shape != wanted[name].shape]:  # fmt: skip
        raise PackError(f"{path} does not fit its network {network['name']}: {', '.join(wrong)}")
    model.load_state_dict(state, strict=complete)
    if not complete:
        reset_biases_and_norms(model)
    return model

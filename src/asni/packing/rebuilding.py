"""A packed file back to a network that runs, and to one that trains."""

from pathlib import Path
from typing import TYPE_CHECKING

from asni.errors import PackError
from asni.packing.convert import to_torch
from asni.packing.reading import Packed, read
from asni.runs import names

if TYPE_CHECKING:
    from torch import nn

    from asni.recipes import Recipe
    from asni.runs.run import Run
    from asni.training.trainer import Trainer


def rebuild(path: str | Path, *, trust_code: bool = False) -> "nn.Module":
    """The network in a file, with its weights; an amenable one at its start: biases 0, normalisation (1, 0).

    A network named by an import path is code that the file chose: it is imported only if you trust it.
    """
    from asni.networks import build

    packed = read(path)
    network = packed.network
    if not {"name", "shape", "classes"} <= network.keys() or len(network["shape"]) != 3:
        raise PackError(f"{path} does not say how its network is built; load its weights into your own with asni.load.")
    require_trust(network["name"], trust_code, str(path))
    channels, height, width = network["shape"]
    model = build(network["name"], (channels, height, width), network["classes"], network.get("options"))
    fill(model, packed)
    return model


def fill(model: "nn.Module", packed: Packed) -> None:
    """Give a network the weights of a file; what an amenable file leaves out goes back to its start."""
    from asni.networks import reset_biases_and_norms
    from asni.pruning.layers import prunable

    state, own = to_torch(packed.tensors), model.state_dict()
    complete = packed.mode != "amenable"
    needed = own if complete else {name: weight for name, weight in prunable(model).items() if weight.numel()}
    missing = [name for name in needed if name not in state]
    other = [name for name, tensor in state.items() if name not in own or own[name].shape != tensor.shape]
    if missing or other:
        raise PackError(f"the file is of another network: it differs in {', '.join([*missing, *other][:5])}.")
    model.load_state_dict(state, strict=complete)
    if not complete:
        reset_biases_and_norms(model)


def recipe_of(path: str | Path, *, trust_code: bool = False) -> "Recipe":
    """The recipe that the network of a file was trained by."""
    from asni.recipes import Recipe
    from asni.recipes.checking import checked

    recipe = read(path).about.get("recipe")
    if recipe is None:
        raise PackError(f"{path} holds no recipe; name one: asni train RECIPE --from {path}")
    found = checked(Recipe, recipe, str(path))
    require_trust(found.network, trust_code, str(path))
    return found


def train_from(trainer: "Trainer", path: str | Path) -> "Run":
    """A full training of the weights in a file, its zeros held."""
    from asni.pruning.hold import Hold

    packed = read(path)
    model = trainer.network()
    fill(model, packed)
    checksum = f"{packed.content:08x}"
    stage = names.from_file_name(checksum)
    layers = trainer.recipe.pruning.layers
    return trainer.train(
        stage,
        lambda model, optimizer: Hold(model, optimizer, **layers),
        start=model.state_dict(),
        settings={"packed_file": checksum},
    )


def require_trust(network: str, trusted: bool, source: str) -> None:
    """A name with a colon is an import path."""
    if ":" in network and not trusted:
        raise PackError(f"{source} would import {network}; if you trust that code, say so with --trust-code.")

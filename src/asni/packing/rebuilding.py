"""Rebuild a network from a packed file, and train it."""

from pathlib import Path
from typing import TYPE_CHECKING

from asni.errors import PackError
from asni.packing.convert import to_torch
from asni.packing.reading import Packed, read
from asni.runs import names

if TYPE_CHECKING:
    from torch import nn

    from asni.pruning.layers import Layers
    from asni.recipes import Recipe
    from asni.runs.run import Run
    from asni.training.trainer import Trainer


def rebuild(path: str | Path, *, trust_code: bool = False) -> "nn.Module":
    """Build the network of a file with its weights; for an amenable file, biases are 0 and normalisation (1, 0).

    Layers that the recipe of an amenable file excludes are not in it: they get new random values.
    A network named by an import path is code chosen by the file: it is imported only with `trust_code`.
    """
    from asni.networks import build

    packed = read(path)
    network = packed.network
    if not {"name", "shape", "classes"} <= network.keys() or len(network["shape"]) != 3:
        raise PackError(f"{path} does not describe its network; load its weights into your own model with asni.load.")
    _require_trust(network["name"], trust_code, str(path))
    channels, height, width = network["shape"]
    model = build(network["name"], (channels, height, width), network["classes"], network.get("options"))
    fill(model, packed)
    return model


def fill(model: "nn.Module", packed: Packed) -> None:
    """Load the weights of a file into a network.

    An amenable file holds the pruned layers alone: biases and norm layers are reset, all else keeps its values.
    """
    from asni.networks import reset_biases_and_norms
    from asni.pruning.layers import prunable

    state, own = to_torch(packed.tensors), model.state_dict()
    complete = packed.mode != "amenable"
    pruned = {} if complete else prunable(model, **_selection(packed))
    needed = own if complete else {name: weight for name, weight in pruned.items() if weight.numel()}
    missing = [name for name in needed if name not in state]
    other = [name for name, tensor in state.items() if name not in own or own[name].shape != tensor.shape]
    if missing or other:
        raise PackError(f"the file does not match the network: they differ in {', '.join([*missing, *other][:5])}.")
    model.load_state_dict(state, strict=complete)
    if not complete:
        reset_biases_and_norms(model)


def _selection(packed: Packed) -> "Layers":
    """Which layers the recipe of a file prunes."""
    from asni.recipes import Recipe
    from asni.recipes.checking import checked

    recipe = packed.about.get("recipe")
    return {} if recipe is None else checked(Recipe, recipe, "the recipe in the packed file").pruning.layers


def recipe_of(path: str | Path, *, trust_code: bool = False) -> "Recipe":
    """The recipe that the network of a file was trained with."""
    from asni.recipes import Recipe
    from asni.recipes.checking import checked

    recipe = read(path).about.get("recipe")
    if recipe is None:
        raise PackError(f"{path} holds no recipe. Name one: asni train RECIPE --from {path}")
    found = checked(Recipe, recipe, str(path))
    require_trust(found, trust_code, str(path))
    return found


def train_from(trainer: "Trainer", path: str | Path) -> "Run":
    """Run a full training from the weights in a file, with its zeros kept at zero."""
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


def require_trust(recipe: "Recipe", trusted: bool, source: str) -> None:
    """Raise an error if the network, the data or the optimiser is an import path and not trusted."""
    for name in (recipe.network, recipe.dataset, recipe.training.optimizer):
        _require_trust(name, trusted, source)


def _require_trust(name: str, trusted: bool, source: str) -> None:
    from asni.recipes.own_code import is_code

    if is_code(name) and not trusted:
        raise PackError(f"{source} names the code {name}. If you trust that code, allow it with --trust-code.")

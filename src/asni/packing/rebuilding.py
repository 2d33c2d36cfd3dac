"""Rebuild a network from a packed file, and train it."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asni.errors import AsniError, PackError
from asni.packing.convert import to_torch
from asni.packing.memory import Memory
from asni.packing.naming import naming
from asni.packing.reading import Packed, read
from asni.runs import names

if TYPE_CHECKING:
    from torch import nn

    from asni.pruning.layers import Layers
    from asni.recipes import Recipe
    from asni.runs.run import Run
    from asni.training.trainer import Trainer


def rebuild(path: str | Path, *, trust_code: bool = False, max_memory: int | None = None) -> "nn.Module":
    """Build the network of a file with its weights; for an amenable file, biases are 0 and normalisation (1, 0).

    Layers that the recipe of an amenable file excludes are not in it: they get new random values.
    A network named by an import path is code chosen by the file: it is imported only with `trust_code`. The network is
    first built on the meta device, and compared with the file before it takes memory.
    """
    path = Path(path)
    packed = read(path, max_memory=max_memory)
    if not _is_described(packed.network):
        raise PackError(f"{path} does not describe its network; load its weights into your own model with asni.load.")
    _require_trust(packed.network["name"], trust_code, str(path))
    with naming(path):
        _require_fitting(packed, packed.network, Memory(path, max_memory))
        model = _build(packed.network)
        fill(model, packed)
    return model


def build_described(network: Mapping[str, Any], *, trust_code: bool, source: str) -> "nn.Module":
    """Build the network that a source of weights describes, with new weights."""
    if not _is_described(network):
        raise PackError(
            f"{source} does not describe its network, so its graph is unknown. Load the weights into your own model, "
            "and pack that: asni.pack(model, out, example=x)."
        )
    _require_trust(network["name"], trust_code, source)
    return _build(network)


def _is_described(network: Mapping[str, Any]) -> bool:
    return {"name", "shape", "classes"} <= network.keys() and len(network["shape"]) == 3


def _require_fitting(packed: Packed, network: Mapping[str, Any], memory: Memory) -> None:
    """Raise an error if the network is not that of the tensors, or too large; no memory is taken for it."""
    import torch

    from asni.recipes.own_code import is_code

    try:
        with torch.device("meta"), torch.random.fork_rng(devices=()):
            outline = _build(network)
    except AsniError:
        if is_code(network["name"]):
            # Not all code can be built without memory, and the user trusts this code.
            return
        raise
    _require_same_layers(outline, packed)
    own = [*outline.parameters(), *outline.buffers()]
    memory.take(sum(tensor.array.nbytes for tensor in packed.tensors.values()))
    memory.take(sum(tensor.numel() * tensor.itemsize for tensor in own))


def _build(network: Mapping[str, Any]) -> "nn.Module":
    from asni.networks import build

    channels, height, width = network["shape"]
    try:
        return build(network["name"], (channels, height, width), network["classes"], network.get("options"))
    except (RuntimeError, TypeError, OverflowError, ZeroDivisionError) as error:
        sizes = f"the input {channels}x{height}x{width} and {network['classes']} classes"
        reason = str(error).partition("\n")[0]
        raise PackError(f"network '{network['name']}' cannot be built for {sizes}: {reason}") from error


def fill(model: "nn.Module", packed: Packed) -> None:
    """Load the weights of a file into a network.

    An amenable file holds the pruned layers alone: biases and norm layers are reset, all else keeps its values.
    """
    from asni.networks import reset_biases_and_norms

    _require_same_layers(model, packed)
    complete = packed.mode != "amenable"
    model.load_state_dict(to_torch(packed.tensors), strict=complete)
    if not complete:
        reset_biases_and_norms(model)


def _require_same_layers(model: "nn.Module", packed: Packed) -> None:
    from asni.pruning.layers import prunable

    own, held = model.state_dict(), packed.tensors
    needed: Iterable[str] = own
    if packed.mode == "amenable":
        needed = [name for name, weight in prunable(model, **_selection(packed)).items() if weight.numel()]
    missing = [name for name in needed if name not in held]
    other = [name for name, tensor in held.items() if name not in own or own[name].shape != tensor.array.shape]
    if missing or other:
        raise PackError(f"the file does not match the network: they differ in {', '.join([*missing, *other][:5])}.")


def _selection(packed: Packed) -> "Layers":
    """Which layers the recipe of a file prunes."""
    from asni.recipes import Recipe
    from asni.recipes.checking import checked

    recipe = packed.about.get("recipe")
    return {} if recipe is None else checked(Recipe, recipe, "the recipe in the packed file").pruning.layers


def recipe_of(path: str | Path, *, trust_code: bool = False, max_memory: int | None = None) -> "Recipe":
    """The recipe that the network of a file was trained with."""
    from asni.recipes import Recipe
    from asni.recipes.checking import checked

    recipe = read(path, max_memory=max_memory).about.get("recipe")
    if recipe is None:
        raise PackError(f"{path} holds no recipe. Name one: asni train RECIPE --from {path}")
    found = checked(Recipe, recipe, str(path))
    require_trust(found, trust_code, str(path))
    return found


def train_from(trainer: "Trainer", path: str | Path, *, max_memory: int | None = None) -> "Run":
    """Run a full training from the weights in a file, with its zeros kept at zero."""
    from asni.pruning.hold import Hold

    path = Path(path)
    packed = read(path, max_memory=max_memory)
    recipe, data = trainer.recipe, trainer.dataset.info
    network = {"name": recipe.network, "shape": data.shape, "classes": data.classes, "options": recipe.network_options}
    with naming(path):
        _require_fitting(packed, network, Memory(path, max_memory))
        fill(model := trainer.network(), packed)
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

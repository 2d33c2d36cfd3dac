"""Read the weights to pack: from a finished run, a safetensors or ONNX file, a PyTorch state_dict or a model."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from asni.errors import PackError, UsageError
from asni.packing.convert import from_torch
from asni.packing.dtypes import Tensor
from asni.packing.foreign import read_onnx, read_safetensors, read_state_dict
from asni.packing.layout import GraphSection
from asni.packing.memory import WRITING, Memory
from asni.packing.naming import naming
from asni.runs import names

_READERS = {".safetensors": read_safetensors, ".onnx": read_onnx}
_SECTIONS = ("training", "pruning", "lottery", "overrides")


@dataclass(frozen=True)
class Source:
    """Tensors, how to build their network, what is known about it, and how to run it."""

    tensors: Mapping[str, Tensor]
    network: dict[str, Any] = field(default_factory=dict)
    about: dict[str, Any] = field(default_factory=dict)
    graph: GraphSection | None = None


def read_source(path: Path, mode: str, max_memory: int | None = None) -> Source:
    """Read the weights at `path`; for an ASNI-II run, the amenable mode takes the initialisation it started from."""
    if path.is_dir():
        return _read_run(path, mode, max_memory)
    return Source(_tensors(path, max_memory))


def _tensors(path: Path, max_memory: int | None) -> dict[str, Tensor]:
    with naming(path):
        memory = Memory(path, max_memory, work=WRITING)
        return _READERS.get(path.suffix, read_state_dict)(path, memory)


def from_model(model: object, mode: str) -> Source:
    """The state_dict of a model; the amenable mode takes its prunable weights."""
    from torch import nn

    from asni.pruning.layers import prunable

    if not isinstance(model, nn.Module):
        raise UsageError(
            f"a model, a state_dict, a file or the directory of a run can be packed, not {type(model).__name__}."
        )
    state = model.state_dict()
    if mode == "amenable":
        state = {name: state[name] for name in prunable(model)}
    return Source(from_torch(state))


def _read_run(directory: Path, mode: str, max_memory: int | None) -> Source:
    from asni.runs import reading

    if not (directory / names.RESULT).exists():
        raise PackError(f"{directory} is not a finished run: it has no {names.RESULT}")
    recipe, result = reading.recipe(directory).model_dump(), reading.finite_result(directory)
    amenable_start = mode == "amenable" and result["stage"] == "asni-2"
    tensors = _verified(directory / (names.INITIAL if amenable_start else names.WEIGHTS), max_memory)
    if mode == "amenable":
        masks = _masks(directory, max_memory, dense=not result["sparsity"])
        tensors = {name: tensor for name, tensor in tensors.items() if name in masks}
    metrics = {key: value for key, value in result.items() if key != "rounds"}
    about = {"recipe": _without_defaults(recipe), "metrics": metrics}
    return Source(tensors, _network(recipe, reading.own_data(directory)), about)


def _masks(directory: Path, max_memory: int | None, *, dense: bool) -> Mapping[str, Tensor]:
    if dense:
        raise PackError(f"{directory} is a dense run: it has no mask, so it has no amenable initialisation")
    return _verified(directory / names.MASK, max_memory)


def _verified(path: Path, max_memory: int | None) -> dict[str, Tensor]:
    from asni.runs import reading

    reading.verify(path)
    return _tensors(path, max_memory)


def _network(recipe: Mapping[str, Any], own_data: Mapping[str, Any] | None) -> dict[str, Any]:
    """How to build the network; `own_data` are the sizes of the user's own data that the run has recorded."""
    from asni.datasets import INFO

    data = asdict(INFO[recipe["dataset"]]) if recipe["dataset"] in INFO else own_data
    if data is None:
        return {}
    network: dict[str, Any] = {"name": recipe["network"], "shape": list(data["shape"]), "classes": data["classes"]}
    options = recipe.get("network_options")
    return {**network, "options": options} if options else network


def _without_defaults(recipe: Mapping[str, Any]) -> dict[str, Any]:
    """The recipe without unset values, its title and the paper's numbers."""
    parts = {
        key: {inner: said for inner, said in value.items() if said not in (None, {})} if key in _SECTIONS else value
        for key, value in recipe.items()
    }
    return {key: value for key, value in parts.items() if key not in ("paper", "title") and value not in (None, {})}

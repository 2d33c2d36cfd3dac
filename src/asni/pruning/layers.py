"""Which weights of a network may be pruned, and why the others are not."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TypedDict, TypeGuard, cast

from torch import Tensor, nn
from torch.optim import Optimizer

from asni.errors import AsniError, UsageError, unknown

CONVOLUTION_AND_LINEAR = (
    nn.Linear,
    nn.Conv1d,
    nn.Conv2d,
    nn.Conv3d,
    nn.ConvTranspose1d,
    nn.ConvTranspose2d,
    nn.ConvTranspose3d,
)
RECURRENT_AND_ATTENTION = (nn.RNNBase, nn.RNNCellBase, nn.MultiheadAttention)
MATRICES_OF_RECURRENT_AND_ATTENTION = (
    "weight_ih",
    "weight_hh",
    "in_proj_weight",
    "q_proj_weight",
    "k_proj_weight",
    "v_proj_weight",
)
EMBEDDINGS = (nn.Embedding, nn.EmbeddingBag)

Selector = str | type[nn.Module] | nn.Module | Callable[[str, nn.Module], bool]
"""A glob pattern for names, a module or a type of modules, or a function of a weight's name and its owner."""


class Layers(TypedDict, total=False):
    """Keyword arguments of every pruner that select the weights to prune; see `prunable`."""

    include: Selector | Iterable[Selector] | None
    exclude: Selector | Iterable[Selector] | None


@dataclass(frozen=True)
class Choice:
    """A parameter of a model, and why it is not pruned; `left_out` is empty for one that is."""

    name: str
    parameter: Tensor
    module: nn.Module
    left_out: str


def prunable(
    model: nn.Module,
    include: Selector | Iterable[Selector] | None = None,
    exclude: Selector | Iterable[Selector] | None = None,
) -> dict[str, Tensor]:
    """The prunable weights of a model, by name: by default the matrices of its layers, as far as they are trained.

    Layers are linear, bilinear and convolution layers, attention, RNN, LSTM and GRU, the `Conv1D` of Hugging Face and
    fused expert weights. Not prunable by default: embeddings, also where they are tied to a linear layer; norms,
    biases and other parameters; and whatever is frozen (`requires_grad` is False).

    `include` selects others instead, among all weights with at least two dimensions; `exclude` removes some. A name
    matches a weight, a layer, or a module with all its submodules, and so does a module or a type; `*` matches any
    characters, including dots. A frozen weight must be included by its own name or that of a module above it. A shared
    weight is listed once, and can be excluded by any of its names.

    >>> model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Linear(3, 2))
    >>> list(prunable(model)), list(prunable(model, exclude="0")), list(prunable(model, include=["2", nn.Linear]))
    (['0.weight', '2.weight'], ['2.weight'], ['0.weight', '2.weight'])
    """
    chosen = survey(model, include, exclude)
    weights = {each.name: each.parameter for each in chosen if not each.left_out}
    for name, weight in weights.items():
        _require_own_values(name, weight)
    if not weights:
        raise AsniError(_nothing_left(model, chosen, selected=include is not None or exclude is not None))
    return weights


def survey(
    model: nn.Module,
    include: Selector | Iterable[Selector] | None = None,
    exclude: Selector | Iterable[Selector] | None = None,
) -> list[Choice]:
    """Every parameter of a model, once, with the reason why it is not pruned.

    >>> model = nn.ModuleDict({"words": nn.Embedding(9, 4), "head": nn.Linear(4, 9)})
    >>> [(each.name, each.left_out) for each in survey(model)]
    [('words.weight', 'embedding'), ('head.weight', ''), ('head.bias', 'norm, bias or vector')]
    """
    if not isinstance(model, nn.Module):
        raise UsageError(f"model must be a torch.nn.Module, not {type(model).__name__}.")
    _require_whole_parameters(model)
    candidates = list(_candidates(model))
    matrices = [each for each in candidates if each.is_matrix]
    included = None if include is None else _selectors(matrices, include)
    excluded = [] if exclude is None else _selectors(matrices, exclude)
    names_of: dict[int, list[_Candidate]] = {}
    for each in candidates:
        names_of.setdefault(id(each.weight), []).append(each)
    return [_chosen(names, included, excluded) for names in names_of.values()]


def trained_by(optimizer: Optimizer, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The subset of `weights` that the optimiser trains."""
    trained = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    own = {name: weight for name, weight in weights.items() if id(weight) in trained}
    if not own:
        raise UsageError(
            "the optimizer trains none of the model's prunable weights. "
            "Create it from model.parameters() after the last change to the model."
        )
    return own


WRAPPERS = {"_orig_mod", "module", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"}
"""What torch.compile, DDP, FSDP and activation checkpointing put into the names of parameters."""


def plain(name: str) -> str:
    """A parameter's name without those of the wrappers around its model.

    >>> plain("module._orig_mod.head.weight")
    'head.weight'
    """
    return ".".join(part for part in name.split(".") if part not in WRAPPERS)


def plain_names(names: Iterable[str]) -> dict[str, str]:
    """Each name without those of wrappers; as it is, if two names would become one.

    >>> plain_names(["module.fc.weight"]), plain_names(["module.fc.weight", "fc.weight"])
    ({'module.fc.weight': 'fc.weight'}, {'module.fc.weight': 'module.fc.weight', 'fc.weight': 'fc.weight'})
    """
    short = {name: plain(name) for name in names}
    return short if len(set(short.values())) == len(short) else {name: name for name in short}


@dataclass(frozen=True)
class _Candidate:
    """One name of a parameter, and the modules that contain it, from the model down to its owner."""

    name: str
    weight: Tensor
    modules: Mapping[str, nn.Module]
    of_a_layer: bool
    """Whether it is a matrix of a layer that is pruned by default."""

    @property
    def owner(self) -> nn.Module:
        return list(self.modules.values())[-1]

    @property
    def names(self) -> list[str]:
        """Its own name and those of the modules that contain it, as they are and without those of wrappers."""
        known = (*self.modules, self.name)
        return [name for name in dict.fromkeys([*known, *map(plain, known)]) if name]

    @property
    def is_matrix(self) -> bool:
        return self.of_a_layer or (not isinstance(self.weight, nn.UninitializedParameter) and self.weight.ndim >= 2)

    def matches(self, selector: Selector) -> bool:
        modules = list(self.modules.values())
        if isinstance(selector, str):
            return any(fnmatchcase(name, selector) for name in self.names)
        if isinstance(selector, type):
            return any(isinstance(module, selector) for module in modules)
        if isinstance(selector, nn.Module):
            return any(module is selector for module in modules)
        return selector(self.name, modules[-1])


def _candidates(model: nn.Module) -> Iterator[_Candidate]:
    """Every name of every parameter."""
    modules = dict(model.named_modules(remove_duplicate=False))
    for path, module in modules.items():
        parts = path.split(".") if path else []
        above = {inner: modules[inner] for inner in (".".join(parts[:depth]) for depth in range(len(parts) + 1))}
        own = dict(module.named_parameters(recurse=False, remove_duplicate=False))
        of_a_layer = _matrices_of_layer(module, own)
        for name, weight in {**own, **of_a_layer}.items():
            yield _Candidate(".".join([*parts, name]), weight, above, name in of_a_layer)


def _matrices_of_layer(module: nn.Module, own: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """What is pruned by default of a module's own parameters."""
    if isinstance(module, (*CONVOLUTION_AND_LINEAR, nn.Bilinear)) or is_conv1d_of_transformers(module):
        # Not from `own`: a computed weight is no parameter, and must be refused rather than ignored.
        return {"weight": cast(Tensor, module.weight)}
    if isinstance(module, RECURRENT_AND_ATTENTION):
        names = [name for name in MATRICES_OF_RECURRENT_AND_ATTENTION if getattr(module, name, None) is not None]
        names += [name for name in getattr(module, "_flat_weights_names", []) if "bias" not in name]
        return {name: cast(Tensor, getattr(module, name)) for name in names}
    return {
        name: weight
        for name, weight in own.items()
        if not isinstance(weight, nn.UninitializedParameter)
        and weight.ndim == 3
        and len(weight) > 1
        and "bias" not in name
        and "expert" in f"{type(module).__name__} {name}".lower()
    }


def is_conv1d_of_transformers(module: nn.Module) -> bool:
    """Whether it is the transposed linear layer of GPT-2, recognised without an import of transformers."""
    return any(
        (kind.__module__, kind.__name__) == ("transformers.pytorch_utils", "Conv1D") for kind in type(module).__mro__
    )


def _chosen(names: Sequence[_Candidate], included: list[Selector] | None, excluded: list[Selector]) -> Choice:
    """Decide on a parameter, given all its names."""
    if included is None:
        asked = [each for each in names if each.of_a_layer]
        reason = _left_out_by_default(names)
    else:
        asked = [each for each in names if each.is_matrix and any(map(each.matches, included))]
        reason = "" if asked else "not included"
        if asked and _is_frozen(asked[0].weight) and not any(_is_named(each, included) for each in asked):
            reason = "frozen"
    if not reason and any(each.is_matrix and any(map(each.matches, excluded)) for each in names):
        reason = "excluded"
    found = (names if reason else asked)[0]
    return Choice(found.name, found.weight, found.owner, reason)


def _left_out_by_default(names: Sequence[_Candidate]) -> str:
    weight = names[0].weight
    if any(isinstance(each.owner, EMBEDDINGS) for each in names):
        return "embedding"
    if not any(each.of_a_layer for each in names):
        if _is_frozen(weight):
            return "frozen"
        vector = not names[0].is_matrix or _is_norm(names[0].owner) or "bias" in names[0].name
        return "norm, bias or vector" if vector else "of no known layer"
    if not weight.is_floating_point():
        return "not floating point"
    return "frozen" if _is_frozen(weight) else ""


def _is_norm(module: nn.Module) -> bool:
    return re.search(r"norm(\dd)?$", type(module).__name__.lower()) is not None


def _is_frozen(weight: Tensor) -> bool:
    return isinstance(weight, nn.Parameter) and not weight.requires_grad


def _is_named(candidate: _Candidate, selectors: list[Selector]) -> bool:
    return any(isinstance(selector, str) and selector in candidate.names for selector in selectors)


def _selectors(candidates: Sequence[_Candidate], selectors: Selector | Iterable[Selector]) -> list[Selector]:
    several = list(selectors) if isinstance(selectors, Iterable) and not _is_selector(selectors) else [selectors]
    for selector in several:
        _require_match(candidates, selector)
    return several


def _is_selector(value: object) -> TypeGuard[Selector]:
    return isinstance(value, str | type | nn.Module) or callable(value)


def _require_match(candidates: Sequence[_Candidate], selector: object) -> None:
    """Refuse what selects nothing; only a function may."""
    if not _is_selector(selector):
        raise UsageError(f"layers are selected by name, module, type or function, not by {selector!r}.")
    if any(each.matches(selector) for each in candidates):
        return
    if isinstance(selector, str):
        raise unknown("layer", selector, {name for each in candidates for name in each.names})
    if isinstance(selector, type | nn.Module):
        kind = selector if isinstance(selector, type) else type(selector)
        raise UsageError(f"the network has no such {kind.__name__} with prunable weights.")


def _nothing_left(model: nn.Module, chosen: Sequence[Choice], *, selected: bool) -> str:
    kind = type(model).__name__
    frozen = [each.name for each in chosen if each.left_out == "frozen" and each.parameter.ndim >= 2]
    if frozen:
        return (
            f"{kind} has nothing to prune: {len(frozen)} layers such as '{frozen[0]}' are frozen (requires_grad is "
            "False). Unfreeze them, or include them by name."
        )
    if selected:
        return f"{kind} has no layer left after include and exclude, so there is nothing to prune."
    return f"{kind} has no layer that is pruned by default, so there is nothing to prune. Name its weights in include=."


def _require_whole_parameters(model: nn.Module) -> None:
    """Refuse wrappers that hide parameters behind flat shards, whose zeros would be those of other weights."""
    if any(type(module).__name__ == "FullyShardedDataParallel" for module in model.modules()):
        raise AsniError(
            "the first FSDP flattens weights into shards, so they cannot be ranked. Use FSDP2, "
            "torch.distributed.fsdp.fully_shard, and create the pruner after it."
        )
    if any(hasattr(parameter, "ds_id") for parameter in model.parameters()):
        raise AsniError("DeepSpeed ZeRO-3 partitions the weights, so they cannot be ranked. Use ZeRO-1 or FSDP2.")


def _require_own_values(name: str, weight: Tensor) -> None:
    if not isinstance(weight, nn.Parameter):
        raise AsniError(
            f"'{name}' is computed from other values (weight norm, torch.nn.utils.prune or another parametrisation), "
            "so zeros in it would be overwritten. Remove the parametrisation first, or exclude the layer."
        )
    if isinstance(weight, nn.UninitializedParameter):
        raise AsniError(f"'{name}' has no shape yet. Run a batch through the network first.")
    if not weight.is_floating_point():
        raise AsniError(
            f"'{name}' holds {weight.dtype} values, and only floating-point weights can be pruned. Exclude it."
        )

"""Which weights of a network may be pruned."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TypedDict, TypeGuard

from torch import Tensor, nn
from torch.optim import Optimizer

from asni.errors import AsniError, UsageError, unknown

PRUNABLE_LAYERS = (
    nn.Linear,
    nn.Conv1d,
    nn.Conv2d,
    nn.Conv3d,
    nn.ConvTranspose1d,
    nn.ConvTranspose2d,
    nn.ConvTranspose3d,
)

Selector = str | type[nn.Module] | nn.Module | Callable[[str, nn.Module], bool]
"""A glob pattern for names, a module or a type of modules, or a function of a weight's name and its owner."""


class Layers(TypedDict, total=False):
    """Keyword arguments of every pruner that select the weights to prune; see `prunable`."""

    include: Selector | Iterable[Selector] | None
    exclude: Selector | Iterable[Selector] | None


def prunable(
    model: nn.Module,
    include: Selector | Iterable[Selector] | None = None,
    exclude: Selector | Iterable[Selector] | None = None,
) -> dict[str, Tensor]:
    """The prunable weights of a model, by name: by default those of all convolution and linear layers.

    `include` selects others instead, among all weights with at least two dimensions; `exclude` removes some. A name
    matches a weight, a layer, or a module with all its submodules, and so does a module or a type; `*` matches any
    characters, including dots. A shared weight is listed once, and can be excluded by any of its names.

    >>> model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Linear(3, 2))
    >>> list(prunable(model)), list(prunable(model, exclude="0")), list(prunable(model, include=["2", nn.Linear]))
    (['0.weight', '2.weight'], ['2.weight'], ['0.weight', '2.weight'])
    """
    candidates = list(_candidates(model))
    included = _selected(candidates, include) if include is not None else [each for each in candidates if each.usual]
    excluded = {id(each.weight) for each in _selected(candidates, [] if exclude is None else exclude)}
    weights: dict[int, tuple[str, Tensor]] = {}
    for each in included:
        if id(each.weight) not in excluded:
            _require_own_values(each.name, each.weight)
            weights.setdefault(id(each.weight), (each.name, each.weight))
    if not weights:
        default = include is exclude is None
        what = "has no convolution or linear layer" if default else "has no layer left after include and exclude"
        raise AsniError(f"{type(model).__name__} {what}, so there is nothing to prune.")
    return dict(weights.values())


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


@dataclass(frozen=True)
class _Candidate:
    """One name of a weight, and the modules that contain it, from the model down to its owner."""

    name: str
    weight: Tensor
    modules: Mapping[str, nn.Module]
    usual: bool
    """Whether it is pruned by default."""

    @property
    def names(self) -> list[str]:
        """Its own name and those of the modules that contain it; the model itself has none."""
        return [name for name in (*self.modules, self.name) if name]

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
    """Every name of every weight with at least two dimensions, and of all weights of convolution and linear layers."""
    modules = dict(model.named_modules(remove_duplicate=False))
    for path, module in modules.items():
        parts = path.split(".") if path else []
        above = {inner: modules[inner] for inner in (".".join(parts[:depth]) for depth in range(len(parts) + 1))}
        own = {name: weight for name, weight in module.named_parameters(recurse=False) if _is_matrix(weight)}
        usual = {"weight": module.weight} if isinstance(module, PRUNABLE_LAYERS) else {}
        for name, weight in {**own, **usual}.items():
            yield _Candidate(".".join([*parts, name]), weight, above, name in usual)


def _is_matrix(weight: nn.Parameter) -> bool:
    return not isinstance(weight, nn.UninitializedParameter) and weight.ndim >= 2


def _selected(candidates: Sequence[_Candidate], selectors: Selector | Iterable[Selector]) -> list[_Candidate]:
    """The candidates that match any selector, in network order."""
    several = list(selectors) if isinstance(selectors, Iterable) and not _is_selector(selectors) else [selectors]
    for selector in several:
        _require_match(candidates, selector)
    return [each for each in candidates if any(each.matches(selector) for selector in several)]


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


def _require_own_values(name: str, weight: Tensor) -> None:
    if not isinstance(weight, nn.Parameter):
        raise AsniError(
            f"'{name}' is computed from other values (weight norm, torch.nn.utils.prune or another parametrisation), "
            "so zeros in it would be overwritten. Remove the parametrisation first, or exclude the layer."
        )
    if isinstance(weight, nn.UninitializedParameter):
        raise AsniError(f"'{name}' has no shape yet. Run a batch through the network first.")

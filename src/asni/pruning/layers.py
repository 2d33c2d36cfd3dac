"""Which weights of a network may be pruned."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TypedDict

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

Selector = str | type[nn.Module] | Callable[[str, nn.Module], bool]
"""A glob pattern for names, a type of module, or a function of a weight's name and the module that owns it."""


class Layers(TypedDict, total=False):
    """Keyword arguments of every pruner that select the weights to prune; see `prunable`."""

    include: Selector | Sequence[Selector] | None
    exclude: Selector | Sequence[Selector] | None


def prunable(
    model: nn.Module,
    include: Selector | Sequence[Selector] | None = None,
    exclude: Selector | Sequence[Selector] | None = None,
) -> dict[str, Tensor]:
    """The prunable weights of a model, by name: by default those of all convolution and linear layers.

    `include` selects others instead, among all weights with at least two dimensions; `exclude` removes some. A name or
    a type matches a weight, a layer, or a module with all its submodules; `*` matches any characters, including dots. A
    shared weight is listed once, and can be excluded by any of its names.

    >>> model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Linear(3, 2))
    >>> list(prunable(model)), list(prunable(model, exclude="0")), list(prunable(model, include=["2", nn.Linear]))
    (['0.weight', '2.weight'], ['2.weight'], ['0.weight', '2.weight'])
    """
    candidates = list(_candidates(model))
    included = _selected(candidates, include) if include is not None else [each for each in candidates if each.usual]
    excluded = {id(each.weight) for each in _selected(candidates, exclude or [])}
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

    @property
    def owner(self) -> nn.Module:
        return list(self.modules.values())[-1]

    @property
    def usual(self) -> bool:
        """Whether it is pruned by default."""
        return isinstance(self.owner, PRUNABLE_LAYERS)

    def matches(self, selector: Selector) -> bool:
        if isinstance(selector, str):
            return any(fnmatchcase(name, selector) for name in (*self.modules, self.name))
        if isinstance(selector, type):
            return any(isinstance(module, selector) for module in self.modules.values())
        return selector(self.name, self.owner)


def _candidates(model: nn.Module) -> Iterator[_Candidate]:
    """Every name of every weight with at least two dimensions, and of all weights of convolution and linear layers."""
    modules = dict(model.named_modules(remove_duplicate=False))
    for path, module in modules.items():
        parts = path.split(".") if path else []
        above = {inner: modules[inner] for inner in (".".join(parts[:depth]) for depth in range(len(parts) + 1))}
        if isinstance(module, PRUNABLE_LAYERS):
            own = {"weight": module.weight}
        else:
            own = {name: weight for name, weight in module.named_parameters(recurse=False) if _is_matrix(weight)}
        for name, weight in own.items():
            yield _Candidate(".".join([*parts, name]), weight, above)


def _is_matrix(weight: nn.Parameter) -> bool:
    return not isinstance(weight, nn.UninitializedParameter) and weight.ndim >= 2


def _selected(candidates: Sequence[_Candidate], selectors: Selector | Sequence[Selector]) -> list[_Candidate]:
    """The candidates that match any selector, in network order."""
    several = [selectors] if isinstance(selectors, str | type) or callable(selectors) else selectors
    for selector in several:
        _require_match(candidates, selector)
    return [each for each in candidates if any(each.matches(selector) for selector in several)]


def _require_match(candidates: Sequence[_Candidate], selector: Selector) -> None:
    if not isinstance(selector, str | type) or any(each.matches(selector) for each in candidates):
        return
    if isinstance(selector, type):
        raise UsageError(f"the network has no {selector.__name__} with prunable weights.")
    names = {name for each in candidates for name in (*each.modules, each.name) if name}
    raise unknown("layer", selector, names)


def _require_own_values(name: str, weight: Tensor) -> None:
    if not isinstance(weight, nn.Parameter):
        raise AsniError(
            f"'{name}' is computed from other values (weight norm, torch.nn.utils.prune or another parametrisation), "
            "so zeros in it would be overwritten. Remove the parametrisation first, or exclude the layer."
        )
    if isinstance(weight, nn.UninitializedParameter):
        raise AsniError(f"'{name}' has no shape yet. Run a batch through the network first.")

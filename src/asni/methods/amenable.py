"""ASNI-II: the 2L numbers from which a sparse network can be retrained (lines 11 to 16 of the algorithm).

Not compared with a program; the tests follow the lines of the algorithm.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Unpack

import torch
from torch import Tensor, nn

from asni.errors import AsniError, UsageError
from asni.methods.asni import asni_1
from asni.networks.initial import can_be_reset, reset_biases_and_norms
from asni.pruning.finite import not_finite
from asni.pruning.hold import Hold
from asni.pruning.html import table
from asni.pruning.layers import Layers, prunable, survey
from asni.pruning.masks import Masks, checked_masks, nonzero_masks, renamed, require_fitting, weights_of
from asni.pruning.messages import warn
from asni.pruning.sharded import any_sharded
from asni.pruning.tables import text_table
from asni.runs import names

if TYPE_CHECKING:
    from asni.runs.run import Run
    from asni.training.trainer import Trainer


HEADINGS = ("layer", "c-", "c+", "alive")


@dataclass(frozen=True, repr=False)
class Amenable:
    """What `amenable` returns: for each layer, the mean of its positive (`c_plus`) and negative weights (`c_minus`).

    A layer without weights of a sign has no entry for it. `theta_hat` is the trained network, `theta_0` the one to
    train again, and `mask` says which weights live.

    >>> model = nn.Linear(4, 1)
    >>> _ = model.weight.data.copy_(torch.tensor([[1.0, 3.0, 0.0, -0.5]]))
    >>> numbers = amenable(model)
    >>> numbers.c_plus, numbers.c_minus
    ({'weight': 2.0}, {'weight': -0.5})
    """

    theta_hat: dict[str, Tensor]
    theta_0: dict[str, Tensor]
    c_plus: dict[str, float]
    c_minus: dict[str, float]
    mask: Masks

    @property
    def rows(self) -> list[tuple[str, str, str, str]]:
        """Table rows: each layer's name, its two centroids, and how many of its weights are alive."""
        return [
            (name, _short(self.c_minus.get(name)), _short(self.c_plus.get(name)), f"{mask.sum():,} of {mask.numel():,}")
            for name, mask in self.mask.items()
        ]

    def __repr__(self) -> str:
        return text_table(HEADINGS, self.rows)

    def _repr_html_(self) -> str:
        return table(HEADINGS, self.rows)


def _short(centroid: float | None) -> str:
    return "-" if centroid is None else f"{centroid:.4g}"


@torch.no_grad()
def amenable(
    model: nn.Module,
    masks: Mapping[str, Tensor] | None = None,
    *,
    initial: Mapping[str, Tensor] | None = None,
    **layers: Unpack[Layers],
) -> Amenable:
    """Sets each layer's surviving positive (negative) weights to their mean, biases to 0, and resets norm layers.

    In a layer without an entry in `masks`, the nonzero weights survive. `initial` is the state_dict from before the
    training: all that is not pruned, such as embeddings, returns to it. Without `initial` such parameters keep their
    trained values, and a warning names them; layers that you exclude keep theirs too. Retrain the network under
    `asni.Hold`.

    >>> model = nn.Linear(4, 1)
    >>> _ = model.weight.data.copy_(torch.tensor([[1.0, 3.0, 0.0, -0.5]]))
    >>> numbers = amenable(model)
    >>> model.weight.data
    tensor([[ 2.0000,  2.0000,  0.0000, -0.5000]])
    >>> numbers
    layer     c-  c+   alive
    weight  -0.5   2  3 of 4
    """
    weights = prunable(model, **layers)
    masks = renamed(checked_masks(masks or {}), dict(model.named_parameters(remove_duplicate=False)))
    if not layers:
        weights |= weights_of(model, masks)
    masks = {**nonzero_masks(weights), **masks}
    require_fitting(masks, weights)
    if any_sharded(weights.values()):
        raise AsniError("amenable needs whole weights. Gather the sharded model into one process first.")
    if broken := not_finite(model):
        raise UsageError(f"'{broken[0]}' holds NaN or infinity; amenable needs a network that has not diverged.")
    others = {} if initial is None else _start_values(initial, model, weights)
    theta_hat = {name: value.clone() for name, value in model.state_dict().items()}
    centroids = {name: _set_to_means(weight, masks[name].to(weight.device)) for name, weight in weights.items()}
    if initial is None:
        _warn_of_trained_values(model, weights, **layers)
    for name, value in model.state_dict().items():
        if name in others:
            value.copy_(others[name])
    reset_biases_and_norms(model)
    theta_0 = {name: value.clone() for name, value in model.state_dict().items()}
    c_minus, c_plus = (
        {name: means[sign] for name, means in centroids.items() if sign in means} for sign in ("negative", "positive")
    )
    return Amenable(theta_hat, theta_0, c_plus, c_minus, masks)


def _set_to_means(weight: Tensor, lives: Tensor) -> dict[str, float]:
    """Set a layer's living weights of each sign to their mean, the others to 0; returns the means."""
    means = {}
    signs = {"positive": (weight > 0) & lives, "negative": (weight < 0) & lives}
    weight.masked_fill_(~lives, 0.0)
    for sign, here in signs.items():
        if here.any():
            mean = weight[here].double().mean().to(weight.dtype)
            weight[here] = mean
            means[sign] = mean.item()
    return means


def _start_values(initial: Mapping[str, Tensor], model: nn.Module, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The initial values of all that is not pruned."""
    own = {id(weight) for weight in weights.values()}
    others = {name: value for name, value in model.state_dict(keep_vars=True).items() if id(value) not in own}
    start = renamed(initial, others)
    for name, value in others.items():
        if name not in start or start[name].shape != value.shape:
            raise UsageError(f"initial is the state_dict of another network: it has no '{name}' of this shape.")
        if torch.isnan(start[name]).any():
            raise UsageError(f"initial holds NaN in '{name}'.")
    return {name: start[name] for name in others}


def _warn_of_trained_values(model: nn.Module, weights: Mapping[str, Tensor], **layers: Unpack[Layers]) -> None:
    """Warn of what makes the start more than two numbers per layer."""
    own = {id(weight) for weight in weights.values()}
    trained = [
        each
        for each in survey(model, **layers)
        if each.left_out not in ("excluded", "not included", "frozen", "")
        and id(each.parameter) not in own
        and not can_be_reset(each.name, each.module)
    ]
    if trained:
        names = ", ".join(f"'{each.name}'" for each in trained[:3]) + " and more" * (len(trained) > 3)
        warn(
            f"{names}: {sum(each.parameter.numel() for each in trained):,} parameters keep their trained values, so "
            "the network starts from more than two numbers per layer. "
            "Pass initial=, the state_dict from before the training."
        )


def asni_2(trainer: "Trainer") -> "Run":
    """ASNI-I, then a full training of its mask from the amenable initialisation."""
    sparse = asni_1(trainer)
    model, numbers = amenable_network(trainer, sparse)
    centroids = {
        name: {"positive": numbers.c_plus.get(name), "negative": numbers.c_minus.get(name)} for name in numbers.mask
    }
    return trainer.train(
        "asni-2",
        lambda model, optimizer: Hold(model, optimizer, sparse.masks),
        start=model.state_dict(),
        notes={names.CENTROIDS: centroids},
    )


def amenable_network(trainer: "Trainer", sparse: "Run") -> tuple[nn.Module, Amenable]:
    """The network that ASNI-II starts from: pruned layers at their centroids, all else as ASNI-I started, biases 0."""
    model = trainer.network(sparse.weights)
    return model, amenable(model, sparse.masks, initial=sparse.initial, **trainer.recipe.pruning.layers)


def original(trainer: "Trainer") -> "Run":
    """The control: ASNI-I, then a full training of its mask from the initial values of the same run."""
    sparse = asni_1(trainer)
    return trainer.train(
        "original", lambda model, optimizer: Hold(model, optimizer, sparse.masks), start=sparse.initial
    )

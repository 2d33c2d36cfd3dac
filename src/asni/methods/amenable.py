"""ASNI-II: the 2L numbers from which a sparse network can be retrained (lines 11 to 16 of the algorithm).

Not compared with a program; the tests follow the lines of the algorithm.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Unpack

import torch
from torch import Tensor, nn

from asni.methods.asni import asni_1
from asni.networks.initial import reset_biases_and_norms
from asni.pruning.hold import Hold
from asni.pruning.layers import Layers, prunable
from asni.pruning.masks import Masks, nonzero_masks, require_fitting, weights_of
from asni.runs import names

if TYPE_CHECKING:
    from asni.runs.run import Run
    from asni.training.trainer import Trainer


HEADINGS = ("layer", "c-", "c+", "alive")


@dataclass(frozen=True, repr=False)
class Amenable:
    """The algorithm's output; `c_plus` and `c_minus` have no entry for a layer without weights of that sign."""

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
        rows = [HEADINGS, *self.rows]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join(
            f"{row[0]:<{widths[0]}}" + "".join(map("  {:>{}}".format, row[1:], widths[1:])) for row in rows
        )

    def _repr_html_(self) -> str:
        """The same table in a notebook."""
        rows = ["".join(f"<td>{escape(cell)}</td>" for cell in row) for row in self.rows]
        head = "".join(f"<th>{heading}</th>" for heading in HEADINGS)
        return f"<table>{''.join(f'<tr>{row}</tr>' for row in [head, *rows])}</table>"


def _short(centroid: float | None) -> str:
    return "-" if centroid is None else f"{centroid:.4g}"


@torch.no_grad()
def amenable(model: nn.Module, masks: Mapping[str, Tensor] | None = None, **layers: Unpack[Layers]) -> Amenable:
    """Sets each layer's surviving positive (negative) weights to their mean, biases to 0, and resets norm layers.

    In a layer without an entry in `masks`, the nonzero weights survive. Layers that you exclude keep their weights.
    Retrain the network under `asni.Hold`.

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
    if not layers:
        weights |= weights_of(model, masks or {})
    masks = {**nonzero_masks(weights), **(masks or {})}
    require_fitting(masks, weights)
    theta_hat = {name: value.clone() for name, value in model.state_dict().items()}
    c_plus: dict[str, float] = {}
    c_minus: dict[str, float] = {}
    for name, weight in weights.items():
        lives = masks[name].to(weight.device)
        positive, negative = (weight > 0) & lives, (weight < 0) & lives
        weight.masked_fill_(~lives, 0.0)
        for sign, centroids in ((positive, c_plus), (negative, c_minus)):
            if sign.any():
                mean = weight[sign].double().mean()
                weight[sign] = mean.to(weight.dtype)
                centroids[name] = mean.to(weight.dtype).item()
    reset_biases_and_norms(model)
    theta_0 = {name: value.clone() for name, value in model.state_dict().items()}
    return Amenable(theta_hat, theta_0, c_plus, c_minus, masks)


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


@torch.no_grad()
def amenable_network(trainer: "Trainer", sparse: "Run") -> tuple[nn.Module, Amenable]:
    """The network that ASNI-II starts from: pruned layers at their centroids, all else as ASNI-I started, biases 0."""
    numbers = amenable(trainer.network(sparse.weights), sparse.masks, **trainer.recipe.pruning.layers)
    model = trainer.network(sparse.initial)
    reset_biases_and_norms(model)
    for name in sparse.masks:
        model.get_parameter(name).copy_(numbers.theta_0[name])
    return model, numbers


def original(trainer: "Trainer") -> "Run":
    """The control: ASNI-I, then a full training of its mask from the initial values of the same run."""
    sparse = asni_1(trainer)
    return trainer.train(
        "original", lambda model, optimizer: Hold(model, optimizer, sparse.masks), start=sparse.initial
    )

"""ASNI-II: the 2L numbers from which a sparse network can be trained again (lines 11 to 16 of the algorithm)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from asni.files import write_json
from asni.methods.asni import asni_1
from asni.networks.initial import reset_biases_and_norms
from asni.pruning.hold import Hold
from asni.pruning.masks import Masks, nonzero_masks, prunable, require_fitting
from asni.runs import names

if TYPE_CHECKING:
    from asni.runs.run import Run
    from asni.training.trainer import Trainer


@dataclass(frozen=True)
class Amenable:
    """The algorithm's output; `c_plus` and `c_minus` hold no entry for a sign that a layer does not have."""

    theta_hat: dict[str, Tensor]
    theta_0: dict[str, Tensor]
    c_plus: dict[str, float]
    c_minus: dict[str, float]
    mask: Masks


@torch.no_grad()
def amenable(model: nn.Module, masks: Mapping[str, Tensor] | None = None) -> Amenable:
    """Sets each layer's surviving positive (negative) weights to their mean, biases to 0, norms to their start.

    Where `masks` name no layer, its weights that are not zero survive. Train the network again under `asni.Hold`.

    >>> model = nn.Linear(4, 1)
    >>> _ = model.weight.data.copy_(torch.tensor([[1.0, 3.0, 0.0, -0.5]]))
    >>> numbers = amenable(model)
    >>> model.weight.data
    tensor([[ 2.0000,  2.0000,  0.0000, -0.5000]])
    >>> numbers.c_plus, numbers.c_minus
    ({'weight': 2.0}, {'weight': -0.5})
    """
    weights = prunable(model)
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
    numbers = amenable(trainer.network(sparse.weights), sparse.masks)
    layers = {
        name: {"positive": numbers.c_plus.get(name), "negative": numbers.c_minus.get(name)} for name in numbers.mask
    }

    def plug(model: nn.Module, optimizer: torch.optim.Optimizer) -> Hold:
        if trainer.fabric.is_global_zero:
            write_json(trainer.experiment.home / "asni-2" / names.CENTROIDS, layers)
        return Hold(model, optimizer, numbers.mask)

    return trainer.train("asni-2", plug, start=numbers.theta_0)


def original(trainer: "Trainer") -> "Run":
    """The control: ASNI-I, then a full training of its mask from the original initial values of that very run."""
    sparse = asni_1(trainer)
    return trainer.train(
        "original", lambda model, optimizer: Hold(model, optimizer, sparse.masks), start=sparse.initial
    )

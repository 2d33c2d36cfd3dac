"""The networks of the paper's Table 2 with random values and masks at the paper's nonzeros, to time inference on.

`python -m benchmarks.masked_networks RUN ...` takes the layers' nonzeros from finished runs into `masks.json`.

| mask | what it keeps |
|---|---|
| kaiming | what one threshold keeps of Kaiming-normal values |
| real | as many weights in each layer as a training with ASNI-I kept, perhaps a shortened one: see `masks.json` |
| macs-0.10 | as many weights in all, chosen by value and cost, so that a tenth of the multiplications is left |
"""

import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from asni import networks, recipes
from asni.datasets.info import published_info
from asni.files import write_text
from asni.pruning.layers import prunable
from asni.pruning.macs import calls_of, macs
from asni.pruning.masks import Masks, keep_largest

RECIPES = {
    "LeNet-300-100": "mnist-fc",
    "Conv2": "cifar10-conv2",
    "Conv4": "cifar10-conv4",
    "Conv6": "cifar10-conv6",
    "VGG-16": "cifar10-vgg16",
    "ResNet-18": "cifar10-resnet18",
    "ResNet-50": "imagenet-resnet50-90",
}
MASKS = ("kaiming", "real", "macs-0.10")
TRAINED = Path(__file__).parents[1] / "results" / "engine" / "masks.json"
MACS_LEFT = 0.10
# A network this close to the budget needs no mask that keeps to it.
MACS_SLACK = 0.01


@dataclass(frozen=True)
class Masked:
    """A network in evaluation mode, the shape of an item, and which part of its weights and multiplications is left."""

    module: nn.Module
    shape: tuple[int, int, int]
    density: float
    mac_density: float
    trained: float | None = None
    """Which part of the steps of its recipe a training took that gave the mask."""


def masked(name: str, mask: str) -> Masked | None:
    """A network with a mask; None if no training gave one, or if its multiplications are within the budget anyway."""
    recipe = recipes.load(RECIPES[name])
    info = published_info(recipe.dataset)
    torch.manual_seed(0)
    module = networks.build(recipe.network, info.shape, info.classes)
    weights = prunable(module)
    assert recipe.paper is not None
    assert recipe.paper.nonzeros is not None
    others = sum(each.numel() for each in module.parameters()) - sum(each.numel() for each in weights.values())
    cost = _cost(module, weights, info.shape)
    masks = _masks(name, mask, weights, cost, recipe.paper.nonzeros - others)
    if masks is None:
        return None
    for key, weight in weights.items():
        _thin_out(weight, masks[key])
    _liven_up(module)
    left = {key: int(each.sum()) for key, each in masks.items()}
    density = sum(left.values()) / sum(each.numel() for each in weights.values())
    trained = _trained()[RECIPES[name]] if mask == "real" else None
    part = None if trained is None else trained["steps"] / trained["steps_of_the_recipe"]
    return Masked(module.eval(), info.shape, density, _mac_density(weights, masks, cost), part)


def _masks(name: str, mask: str, weights: Mapping[str, Tensor], cost: Mapping[str, int], count: int) -> Masks | None:
    if mask == "real":
        trained = _trained().get(RECIPES[name])
        if trained is None:
            return None
        kept: Mapping[str, int] = trained["nonzeros"]
        return {key: keep_largest({key: weight}, kept[key])[key] for key, weight in weights.items()}
    by_value = keep_largest(weights, count)
    if mask == "kaiming":
        return by_value
    if _mac_density(weights, by_value, cost) <= MACS_LEFT + MACS_SLACK:
        return None
    return _within_budget(weights, cost, count)


def _within_budget(weights: Mapping[str, Tensor], cost: Mapping[str, int], count: int) -> Masks:
    """Keep the weights with the largest w² - price * cost: the price is that at which the budget is met."""
    low, high = 0.0, max(float(weight.detach().abs().max()) ** 2 for weight in weights.values())
    for _ in range(30):
        price = (low + high) / 2
        scores = {key: weight.detach() ** 2 - price * cost[key] for key, weight in weights.items()}
        least = min(float(score.min()) for score in scores.values())
        masks = keep_largest({key: score - least for key, score in scores.items()}, count)
        low, high = (price, high) if _mac_density(weights, masks, cost) > MACS_LEFT else (low, price)
    return masks


def _cost(module: nn.Module, weights: Mapping[str, Tensor], shape: tuple[int, int, int]) -> dict[str, int]:
    """How often each weight of a layer is multiplied for one item."""
    calls = calls_of(module, (1, *shape))
    return {key: macs(weight, calls[id(weight)]) // weight.numel() for key, weight in weights.items()}


def _mac_density(weights: Mapping[str, Tensor], masks: Masks, cost: Mapping[str, int]) -> float:
    left = sum(cost[key] * int(mask.sum()) for key, mask in masks.items())
    return left / sum(cost[key] * weight.numel() for key, weight in weights.items())


def _thin_out(weight: Tensor, mask: Tensor) -> None:
    """Apply a mask, and scale what is left to the energy of the whole: a deep network's signal would fade."""
    with torch.no_grad():
        before = weight.norm()
        weight.mul_(mask)
        weight.mul_(before / weight.norm().clamp_min(1e-12))


def _liven_up(module: nn.Module) -> None:
    """Biases and statistics as after a training, so that a runtime which ignores them gives wrong results."""
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if name.endswith("bias"):
                parameter.normal_(0, 0.1)
        for each in module.modules():
            if isinstance(each, nn.BatchNorm2d):
                assert each.running_mean is not None
                assert each.running_var is not None
                each.running_mean.normal_(0, 0.1)
                each.running_var.uniform_(0.5, 1.5)


@cache
def _trained() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(TRAINED.read_text()) if TRAINED.exists() else {}
    return found


def collect(runs: Iterable[Path]) -> None:
    """Take the nonzeros of each layer from finished runs, which lie in a directory named after their recipe."""
    found = dict(_trained())
    for run in runs:
        variant = run.parents[1].name
        result = json.loads((run / "result.json").read_text())
        masks = load_file(run / "mask.safetensors")
        name = variant.partition("--")[0]
        recipe = recipes.load(name)
        steps = recipe.steps_per_epoch(published_info(recipe.dataset).train)
        found[name] = {
            "run": variant,
            **{key: result[key] for key in ("seed", "epochs", "steps", "accuracy")},
            "steps_of_the_recipe": recipe.training.epochs * steps,
            "nonzeros": {name: int(mask.sum()) for name, mask in masks.items()},
            "shapes": {name: list(mask.shape) for name, mask in masks.items()},
        }
    TRAINED.parent.mkdir(parents=True, exist_ok=True)
    write_text(TRAINED, json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    collect(map(Path, sys.argv[1:]))

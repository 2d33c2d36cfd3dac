"""Whether training on the nonzeros ends where masked dense training does: `python -m benchmarks.same_training`.

300 steps of CIFAR-10 recipes from ASNI-II's start: a mask at the paper's nonzeros, here by a threshold on the initial
values, and two numbers per layer. Three networks see the same batches: masked dense in PyTorch, the same in
channels_last, which rounds differently, and ours. `results/sparse-training/drift.json` has the distances between them;
a recipe that is there is not trained again. CIFAR-10 is fetched by `asni data get cifar10`.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from statistics import mean
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from asni import Hold, amenable, datasets, networks, recipes
from asni.datasets import Dataset
from asni.datasets.order import epoch_order
from asni.engine.machine import processor
from asni.engine.native import choice
from asni.files import write_text
from asni.pruning.layers import prunable
from asni.pruning.masks import Masks, keep_largest
from asni.recipes import Recipe, lr_at
from asni.sparse.stepper import Stepper
from asni.training.evaluation import accuracy
from asni.training.optimizers import make_optimizer

RESULTS = Path(__file__).parents[1] / "results" / "sparse-training" / "drift.json"
RECIPES = ("cifar10-conv2", "cifar10-vgg11", "cifar10-resnet18")
STEPS = (1, 10, 100, 300)
LAST = 50
"""Steps at the end whose mean loss is reported: that of a single batch is noisy."""
DENSE, OTHER, OURS = "dense", "dense, channels_last", "asni"

Row = dict[str, Any]
Step = Callable[[Tensor, Tensor], float]


def row_of(recipe: Recipe, steps: Sequence[int]) -> Row:
    """Train three times side by side, and compare after each of these numbers of steps."""
    torch.set_num_threads(1)
    dataset = datasets.load(recipe.dataset)
    model, masks = start(recipe, dataset)
    models = {name: deepcopy(model) for name in (DENSE, OTHER, OURS)}
    ours, stepper = _ours(models[OURS], recipe, masks, dataset)
    taken: dict[str, Step] = {
        DENSE: _dense(models[DENSE], recipe, masks, torch.contiguous_format),
        OTHER: _dense(models[OTHER], recipe, masks, torch.channels_last),
        OURS: ours,
    }
    losses: dict[str, list[float]] = {name: [] for name in taken}
    compared = {}
    for number, (images, labels) in enumerate(_batches(recipe, dataset, steps[-1]), 1):
        for name, step in taken.items():
            losses[name].append(step(images, labels))
        if number in steps:
            stepper.store()
            compared[str(number)] = _compared(models, model, losses)
    return {
        "nonzeros": int(sum(mask.sum() for mask in masks.values())),
        "batch": recipe.training.batch_size,
        "optimizer": recipe.training.optimizer,
        "about": stepper.about,
        "steps": compared,
        "last_losses": {name: mean(each[-LAST:]) for name, each in losses.items()},
        "accuracy": {name: accuracy(each, dataset) for name, each in models.items()},
        "processor": processor(),
        "instruction_set": choice().isa,
        "versions": {"torch": torch.__version__},
    }


def start(recipe: Recipe, dataset: Dataset) -> tuple[nn.Module, Masks]:
    """A network as ASNI-II starts, with the paper's nonzeros, and its masks."""
    torch.manual_seed(0)
    model = networks.build(recipe.network, dataset.info.shape, dataset.info.classes)
    weights = prunable(model, **recipe.pruning.layers)
    assert recipe.paper.nonzeros is not None
    others = sum(each.numel() for each in model.parameters()) - sum(each.numel() for each in weights.values())
    masks = keep_largest(weights, recipe.paper.nonzeros - others)
    amenable(model, masks, initial=deepcopy(model.state_dict()), **recipe.pruning.layers)
    return model.train(), masks


def _batches(recipe: Recipe, dataset: Dataset, count: int) -> Iterator[tuple[Tensor, Tensor]]:
    training = recipe.training
    order = epoch_order(dataset.info.train, training.batch_size, count, seed=0, epoch=0)
    return dataset.train_batches(order, training.batch_size, augment=training.augment, seed=0, epoch=0)


def _optimizer(model: nn.Module, recipe: Recipe) -> torch.optim.Optimizer:
    optimizer = make_optimizer(model, recipe)
    for group in optimizer.param_groups:
        group["lr"] = lr_at(recipe.training, 0)
    return optimizer


def _dense(model: nn.Module, recipe: Recipe, masks: Masks, memory_format: torch.memory_format) -> Step:
    model.to(memory_format=memory_format)  # type: ignore[call-overload]
    optimizer = _optimizer(model, recipe)
    Hold(model, optimizer, masks)

    def step(images: Tensor, labels: Tensor) -> float:
        loss = cross_entropy(model(images.contiguous(memory_format=memory_format)), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    return step


def _ours(model: nn.Module, recipe: Recipe, masks: Masks, dataset: Dataset) -> tuple[Step, Stepper]:
    optimizer = _optimizer(model, recipe)
    stepper = Stepper(model, optimizer, masks, batch_size=recipe.training.batch_size, shape=dataset.info.shape)
    return lambda images, labels: float(stepper.step(images, labels, weight=1.0)), stepper


def _compared(models: Mapping[str, nn.Module], start: nn.Module, losses: Mapping[str, Sequence[float]]) -> Row:
    """How far the weights are from those of the first dense run, beside how far they came; and the last losses."""
    vectors = {name: _vector(model) for name, model in models.items()}
    dense = vectors[DENSE]
    return {
        "moved": _relative(_vector(start), dense),
        "distance": {name: _relative(vectors[name], dense) for name in (OTHER, OURS)},
        "loss": {name: each[-1] for name, each in losses.items()},
    }


def _vector(model: nn.Module) -> Tensor:
    return torch.cat([each.detach().double().flatten() for each in model.parameters()])


def _relative(one: Tensor, other: Tensor) -> float:
    return float((one - other).norm() / other.norm())


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.same_training", description=__doc__)
    parser.add_argument("--quick", type=int, metavar="STEPS", help="train this many steps, and write nothing")
    arguments = parser.parse_args()
    rows: dict[str, Row] = json.loads(RESULTS.read_text()) if RESULTS.exists() and not arguments.quick else {}
    for name in RECIPES:
        if name in rows:
            continue
        print(f"{name} ...", file=sys.stderr)
        rows[name] = row_of(recipes.load(name), (1, arguments.quick) if arguments.quick else STEPS)
        if not arguments.quick:
            RESULTS.parent.mkdir(parents=True, exist_ok=True)
            write_text(RESULTS, json.dumps(rows, indent=1) + "\n")
        print(json.dumps(rows[name], indent=1))


if __name__ == "__main__":
    main()

"""A training step of the convolutional CIFAR-10 recipes, dense and with ASNI-I, compared with a bare eager loop."""

from collections.abc import Callable
from functools import partial

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from asni import networks, recipes
from asni.methods.asni import ASNI
from asni.training.optimizers import make_optimizer
from asni.training.processes import make_fabric
from asni.training.round import train_step
from benchmarks.timing import seconds

SHAPE, CLASSES = (3, 32, 32), 10
ROUNDS = {"cifar10-conv2": 15, "cifar10-conv6": 9, "cifar10-vgg11": 5, "cifar10-resnet18": 7}


def run() -> dict[str, float]:
    """Ratios of step times; below 1 is faster than the reference."""
    torch.set_num_threads(1)
    fabric = make_fabric("cpu")
    ratios = {}
    for name, rounds in ROUNDS.items():
        recipe = recipes.load(name)
        taken = seconds(
            {
                "bare": _bare(recipe),
                "dense": _trainer(recipe, fabric, sparse=False),
                "ASNI-I": _trainer(recipe, fabric, sparse=True),
            },
            rounds,
        )
        ratios[f"dense step / bare eager loop, {name}"] = taken["dense"] / taken["bare"]
        ratios[f"ASNI-I step / bare eager loop, {name}"] = taken["ASNI-I"] / taken["bare"]
        ratios[f"ASNI-I step / dense step, {name}"] = taken["ASNI-I"] / taken["dense"]
    return ratios


def _batch(recipe: recipes.Recipe) -> tuple[Tensor, Tensor]:
    size = recipe.training.batch_size
    return torch.randn(size, *SHAPE), torch.randint(CLASSES, (size,))


def _trainer(recipe: recipes.Recipe, fabric: Fabric, *, sparse: bool) -> Callable[[], Tensor]:
    network = networks.build(recipe.network, SHAPE, CLASSES)
    network = network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimizer = make_optimizer(network, recipe)
    if sparse:
        ASNI(network, optimizer, sparsity=0.97, epochs=50, steps_per_epoch=10**9).prune(0.5)
    model, stepper = fabric.setup(network, optimizer)
    images, labels = _batch(recipe)
    return lambda: train_step(fabric, model, stepper, images, labels)


def _bare(recipe: recipes.Recipe) -> Callable[[], None]:
    network = networks.build(recipe.network, SHAPE, CLASSES)
    optimizer = make_optimizer(network, recipe)
    return partial(_bare_step, network, optimizer, *_batch(recipe))


def _bare_step(model: nn.Module, optimizer: torch.optim.Optimizer, images: Tensor, labels: Tensor) -> None:
    loss = cross_entropy(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

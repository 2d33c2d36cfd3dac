"""Cost of a training step under each one-round method, between mask updates, relative to a dense step."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn

from asni import networks, recipes
from asni.methods.asni import ASNI
from asni.methods.continuous import Continuous
from asni.methods.gmp import GMP
from asni.methods.rigl import RigL
from asni.methods.soft_threshold import STR
from asni.training.optimizers import make_optimizer
from asni.training.processes import make_fabric
from asni.training.round import train_step
from benchmarks.timing import seconds

NEVER = 10**9
ROUNDS = 1500
SPARSITY = 0.97


def run() -> dict[str, float]:
    """The network of mnist-fc, its batches of 60 and random images; 1 is the time of the dense step."""
    torch.set_num_threads(1)
    fabric, recipe = make_fabric("cpu"), recipes.load("mnist-fc")
    step = partial(_step, fabric, recipe, torch.randn(60, 1, 28, 28), torch.randint(10, (60,)))
    options: dict[str, Any] = {"sparsity": SPARSITY, "epochs": 2, "steps_per_epoch": NEVER}
    taken = seconds(
        {
            "dense": step(lambda model, optimizer: None),
            "ASNI-I": step(lambda *pair: ASNI(*pair, **options).prune(SPARSITY)),
            "GMP": step(lambda *pair: GMP(*pair, **options, every=NEVER).prune(SPARSITY)),
            "RigL": step(lambda *pair: RigL(*pair, **options, every=NEVER)),
            "STR": step(lambda *pair: STR(*pair, decay=0.0, start=-2.0)),
            "continuous": step(lambda *pair: Continuous(*pair, **options)),
        },
        ROUNDS,
    )
    return {f"{name} step / dense step, mnist-fc": taken[name] / taken["dense"] for name in taken if name != "dense"}


def _step(
    fabric: Fabric,
    recipe: recipes.Recipe,
    images: Tensor,
    labels: Tensor,
    make_pruner: Callable[[nn.Module, torch.optim.Optimizer], object],
) -> Callable[[], Tensor]:
    network = networks.build(recipe.network, (1, 28, 28), 10)
    optimizer = make_optimizer(network, recipe)
    make_pruner(network, optimizer)
    model, stepper = fabric.setup(network, optimizer)
    return partial(train_step, fabric, model, stepper, images, labels)

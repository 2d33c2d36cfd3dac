"""Peak memory of pruning and training ResNet-50 with masked SGD, above dense training, in bytes per weight."""

import os
import subprocess
import sys

import torch
from torch import nn

from asni import networks, recipes
from asni.methods.asni import ASNI
from asni.pruning.layers import prunable
from asni.training.optimizers import make_optimizer
from asni.training.processes import make_fabric
from asni.training.round import train_step
from benchmarks.pruning import resident

SHAPE, CLASSES = (3, 224, 224), 1000
BATCH = 4  # far less than a GPU's share of the recipe's 820, so that the memory of a step hides little of the pruning's
STEPS = 2


def run() -> dict[str, float]:
    """Each training runs in its own process, whose peak memory Linux records."""
    peaks = {method: _peak(method) for method in ("dense", "asni")}
    with torch.device("meta"):
        network = networks.build("resnet50", SHAPE, CLASSES)
    weights = sum(weight.numel() for weight in prunable(network).values())
    return {"bytes a weight above dense training, ResNet-50": (peaks["asni"] - peaks["dense"]) / weights}


def _peak(method: str) -> int:
    command = [sys.executable, "-m", "benchmarks.memory", method]
    # Return freed tensors to the system immediately, so that the peak does not include memory that malloc caches.
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536"}
    return int(subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout)


def train(method: str) -> None:
    """Two epochs of two steps each; ASNI-I prunes after the first."""
    torch.set_num_threads(1)
    _load_code()
    recipe, fabric = recipes.load("imagenet-resnet50-80"), make_fabric("cpu")
    torch.manual_seed(0)
    network = networks.build("resnet50", SHAPE, CLASSES)
    network = network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimizer = make_optimizer(network, recipe)
    if method == "asni":
        ASNI(network, optimizer, sparsity=recipe.schedule().final, epochs=2, steps_per_epoch=STEPS)
    model, stepper = fabric.setup(network, optimizer)
    images, labels = torch.randn(BATCH, *SHAPE), torch.randint(CLASSES, (BATCH,))
    for _ in range(2 * STEPS):
        train_step(fabric, model, stepper, images, labels)


def _load_code() -> None:
    """Prune a small network in the dense process too, so that lazily loaded code does not count as mask memory."""
    network = nn.Linear(1000, 600)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9, fused=True)
    pruner = ASNI(network, optimizer, sparsity=0.5, epochs=2, steps_per_epoch=1)
    for _ in range(2):
        network(torch.ones(1, 1000)).sum().backward()
        optimizer.step()
    pruner.detach()


if __name__ == "__main__":
    train(sys.argv[1])
    print(resident("VmHWM"))

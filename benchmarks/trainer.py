"""Cost of the trainer, compared with a bare eager loop and a per-sample DataLoader, and of ASNI-I over dense."""

import tempfile
from collections.abc import Callable
from itertools import count, islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lightning_fabric import Fabric
from PIL import Image
from rich.console import Console
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, Dataset, TensorDataset

from asni import datasets, networks, recipes
from asni.methods.asni import ASNI
from asni.runs.run import Experiment
from asni.training.optimizers import make_optimizer
from asni.training.processes import make_fabric
from asni.training.progress import Progress
from asni.training.round import train_step
from asni.training.trainer import Trainer
from benchmarks.timing import seconds

EPOCHS = 3
SAMPLED_STEPS = 200


def run() -> dict[str, float]:
    """Ratios of times; below 1 is faster than the reference."""
    torch.set_num_threads(1)
    fabric = make_fabric("cpu")
    ratios = {}
    for name in ("mnist-fc", "mnist-conv2"):
        ratios[f"ASNI-I step / dense step, {name}"] = _asni_step(fabric, recipes.load(name))
    ratios |= _whole_trainer(fabric)
    return ratios


def _asni_step(fabric: Fabric, recipe: recipes.Recipe) -> float:
    """With half of the weights pruned, the worst case for code that branches on the mask (ours does not)."""
    images, labels = torch.randn(recipe.training.batch_size, 1, 28, 28), torch.randint(10, (60,))

    def contestant(sparse: bool) -> Callable[[], Tensor]:
        network = networks.build(recipe.network, (1, 28, 28), 10)
        optimizer = make_optimizer(network, recipe)
        if sparse:
            ASNI(network, optimizer, sparsity=0.97, epochs=50, steps_per_epoch=10**9).prune(0.5)
        model, stepper = fabric.setup(network, optimizer)
        return lambda: train_step(fabric, model, stepper, images, labels)

    rounds = 1000 if recipe.network == "fc" else 30
    taken = seconds({"dense": contestant(sparse=False), "ASNI-I": contestant(sparse=True)}, rounds)
    return taken["ASNI-I"] / taken["dense"]


def _whole_trainer(fabric: Fabric) -> dict[str, float]:
    """All that `asni train` does, including checkpoints and final files, relative to loops that only train and test."""
    recipe = recipes.load("mnist-fc").override(epochs=EPOCHS)
    train, test = _preloaded("mnist")
    samples = _Samples(torch.randint(256, (60_000, 28, 28), dtype=torch.uint8), train[1])
    numbers = count()
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(Experiment(recipe, 0, "fp32", Path(folder)), fabric, Progress(Console(quiet=True)))
        taken = seconds(
            {
                "trainer": lambda: trainer.train(f"dense-{next(numbers)}", lambda model, optimizer: None),
                "bare loop": lambda: _bare_loop(recipe, train, test),
                "pictures": lambda: _data_loader_loop(recipe, samples),
                "tensors": lambda: _data_loader_loop(recipe, TensorDataset(*train)),
            },
            rounds=3,
            warm_up=1,
        )
    steps = EPOCHS * trainer.steps_per_epoch
    return {
        "trainer / bare eager loop, mnist-fc": taken["trainer"] / taken["bare loop"],
        **{
            f"trainer / per-sample DataLoader of {kind}, mnist-fc": taken["trainer"]
            / steps
            * SAMPLED_STEPS
            / taken[kind]
            for kind in ("pictures", "tensors")
        },
    }


def _preloaded(name: str) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    dataset = datasets.load(name)
    order = torch.arange(dataset.info.train)
    train = next(dataset.train_batches(order, len(order), augment=None, seed=0, epoch=0))
    return train, next(dataset.test_batches(dataset.info.test))


def _bare_loop(recipe: recipes.Recipe, train: tuple[Tensor, Tensor], test: tuple[Tensor, Tensor]) -> None:
    model = networks.build("fc", (1, 28, 28), 10)
    optimizer = torch.optim.Adam(model.parameters(), lr=recipe.training.lr, fused=True)
    (images, labels), size = train, recipe.training.batch_size
    for _ in range(EPOCHS):
        order = torch.randperm(len(images))
        for start in range(0, len(images), size):
            batch = order[start : start + size]
            _bare_step(model, optimizer, images[batch], labels[batch])
        with torch.no_grad():
            (model(test[0]).argmax(1) == test[1]).float().mean().item()


class _Samples(Dataset[tuple[Tensor, int]]):
    """One sample at a time through Pillow and a normalising transform, as most scripts load MNIST."""

    def __init__(self, images: Tensor, labels: Tensor):
        self.images, self.labels = images, labels

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        picture = Image.fromarray(self.images[index].numpy(), mode="L")
        pixels = torch.from_numpy(np.array(picture, copy=True)).unsqueeze(0).float().div(255)
        return (pixels - 0.1307) / 0.3081, int(self.labels[index])


def _data_loader_loop(recipe: recipes.Recipe, samples: Dataset[Any]) -> None:
    model = networks.build("fc", (1, 28, 28), 10)
    optimizer = torch.optim.Adam(model.parameters(), lr=recipe.training.lr, fused=True)
    loader = DataLoader(samples, batch_size=recipe.training.batch_size, shuffle=True)
    for images, labels in islice(loader, SAMPLED_STEPS):
        _bare_step(model, optimizer, images, labels)


def _bare_step(model: nn.Module, optimizer: torch.optim.Optimizer, images: Tensor, labels: Tensor) -> None:
    loss = cross_entropy(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

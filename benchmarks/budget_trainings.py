"""What budgets and small prunings do to accuracy: `python -m benchmarks.budget_trainings [QUESTION ...] [--runs DIR]`.

Questions: `macs`, accuracy over multiplications at fixed nonzeros; `prunings`, accuracy over the number of prunings and
of epochs; `emptied`, short trainings whose last linear layers one global threshold empties; `speed`, what the networks
of `macs` take in the engine. Each row of `results/budgets/QUESTION.json` is written when it is trained, and not trained
again. Start it in the root of the repository: one recipe names a network in `benchmarks/`.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

import asni
from asni import networks, recipes
from asni.datasets import info_of
from asni.datasets.mnist import MNIST
from asni.engine.machine import processor
from asni.files import write_text
from asni.runs import reading

RESULTS = Path(__file__).parents[1] / "results" / "budgets"
SEEDS = (0, 1, 2)
KEPT = ("accuracy", "nonzeros", "mac_density", "epochs", "steps", "sparse_steps", "seconds")
BATCHES = (1, 64)

CONV2 = ("cifar10-conv2", "--epochs", "8", "--steps-per-epoch", "250")
RESNET8 = ("benchmarks/resnet8.toml",)
BUDGETS = {"Conv2": (CONV2, (0.25, 0.15, 0.1)), "ResNet-8": (RESNET8, (0.15, 0.1, 0.07))}
CUBIC = ("--schedule", "cubic")
EPOCHS = (5, 10, 20, 50)
EMPTIED = {"mnist-conv4": ("--epochs", "5", "--steps-per-epoch", "200"),
           "mnist-conv6": ("--epochs", "5", "--steps-per-epoch", "200")}  # fmt: skip
HELD_OUT = 10_000
"""Training images that choose between remedies, in place of the test images."""

Question = tuple[str, int, list[str]]
"""The configuration's name, the seed, and the arguments of `asni train`."""


def macs() -> Iterator[Question]:
    """Every network, with and without a budget, by both scores; beside dense and ASNI-I as published."""
    for seed in SEEDS:
        for network, (recipe, budgets) in BUDGETS.items():
            yield f"{network}, dense", seed, [*recipe, "--method", "dense"]
            yield f"{network}, asni-1", seed, [*recipe, "--method", "asni-1"]
            for score, method in (("magnitude", "asni-1-fine"), ("lamp", "asni-1-lamp")):
                yield f"{network}, {score}", seed, [*recipe, *CUBIC, "--method", method]
                for budget in budgets:
                    limits = ["--method", "asni-1-macs", "--macs", str(budget), "--score", score]
                    yield f"{network}, {score}, macs {budget}", seed, [*recipe, *CUBIC, *limits]


def prunings() -> Iterator[Question]:
    """mnist-fc in fewer epochs: pruned once an epoch, 50 times, or every 100 steps, and along the cubic."""
    steps = recipes.load("mnist-fc").training.steps_per_epoch or 1000
    for seed in SEEDS:
        for epochs in EPOCHS:
            recipe = ["mnist-fc", "--epochs", str(epochs)]
            if epochs == EPOCHS[-1]:
                recipe = ["mnist-fc"]
            fifty = ["--prune-every", str(epochs * steps // 50)] if epochs < 50 else []
            yield f"{epochs} epochs, dense", seed, [*recipe, "--method", "dense"]
            yield f"{epochs} epochs, once an epoch", seed, [*recipe, "--method", "asni-1"]
            if fifty:
                yield f"{epochs} epochs, 50 prunings", seed, [*recipe, "--method", "asni-1-fine", *fifty]
            yield f"{epochs} epochs, every 100 steps", seed, [*recipe, "--method", "asni-1-fine"]
            yield f"{epochs} epochs, cubic", seed, [*recipe, "--method", "asni-1-fine", *CUBIC]
            yield f"{epochs} epochs, cubic, averaged", seed, [
                *recipe, "--method", "asni-1-fine", *CUBIC, "--average-last"
            ]  # fmt: skip
            yield f"{epochs} epochs, cubic, LAMP", seed, [*recipe, "--method", "asni-1-lamp", *CUBIC]


REMEDIES = {
    "as published": ["--method", "asni-1"],
    "every 20 steps": ["--method", "asni-1-fine"],
    "LAMP": ["--method", "asni-1", "--score", "lamp"],
    "LAMP, every 20 steps": ["--method", "asni-1-lamp"],
    "LAMP, cubic, every 20 steps": ["--method", "asni-1-lamp", *CUBIC],
}


def emptied(folder: Path, test: bool) -> Iterator[Question]:
    """Every remedy with one seed on held-out training images, or on the test images what they chose, beside ASNI-I."""
    for name, shorter in EMPTIED.items():
        if not test:
            for remedy, words in REMEDIES.items():
                yield f"{name}, held out, {remedy}", 0, [str(_held_out(name, folder)), *shorter, *words]
            continue
        for seed in SEEDS:
            for remedy in dict.fromkeys(["as published", chosen(name)]):
                yield f"{name}, test, {remedy}", seed, [name, *shorter, *REMEDIES[remedy]]


def chosen(name: str) -> str:
    """The remedy with the highest accuracy on the held-out images."""
    rows = read("emptied")
    return max(REMEDIES, key=lambda remedy: rows[f"{name}, held out, {remedy}, seed 0"]["accuracy"])


def _held_out(name: str, folder: Path) -> Path:
    """The recipe with the last training images in place of the test images."""
    path = folder / f"{name}-held-out.toml"
    if not path.exists():
        arrays = asdict(MNIST.arrays())
        images, labels = arrays["train_images"], arrays["train_labels"]
        folder.mkdir(parents=True, exist_ok=True)
        np.savez(
            folder / "held-out.npz",
            train_images=images[:-HELD_OUT], train_labels=labels[:-HELD_OUT],
            test_images=images[-HELD_OUT:], test_labels=labels[-HELD_OUT:],
        )  # fmt: skip
        text = (Path(recipes.__file__).parent / f"{name}.toml").read_text(encoding="utf-8")
        write_text(path, text.replace('dataset = "mnist"', 'dataset = "./held-out.npz"'))
    return path


def trained(arguments: Sequence[str], seed: int, runs: Path) -> dict[str, Any]:
    command = ["asni", "train", *arguments, "--seed", str(seed)]
    result = _train(command[2:], runs)
    return {"command": command, **{name: result[name] for name in KEPT}, "processor": processor()}


def _train(arguments: Sequence[str], runs: Path) -> dict[str, Any]:
    """Train as a user would, on one thread; a finished training is not repeated."""
    command = [sys.executable, "-m", "asni", "train", *arguments, "--out", str(runs), "--json"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def speed(runs: Path) -> None:
    """The milliseconds of a pass through every network of `macs`, for each batch size."""
    rows = read("macs")
    for key, row in rows.items():
        if key not in (known := read("speed")):
            print(f"{key} ...", file=sys.stderr, flush=True)
            run = Path(_train(row["command"][2:], runs)["directory"])
            known[key] = {str(batch): asni.timed(*_network(run, batch)) for batch in BATCHES}
            write_text(RESULTS / "speed.json", json.dumps(known, indent=1) + "\n")


def _network(run: Path, batch: int) -> tuple[torch.nn.Module, torch.Tensor]:
    """The trained network of a run, and a batch of its images."""
    recipe = reading.recipe(run)
    info = info_of(recipe.dataset)
    model = networks.build(recipe.network, info.shape, info.classes)
    weights = reading.weights(run, only=set(model.state_dict()))
    model.load_state_dict({name: torch.from_numpy(value) for name, value in weights.items()}, strict=False)
    return model.eval(), torch.zeros(batch, *info.shape)


def read(question: str) -> dict[str, Any]:
    path = RESULTS / f"{question}.json"
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return found


def answer(question: str, asked: Iterator[Question], runs: Path) -> None:
    """Train what is missing, and keep each row at once."""
    for name, seed, arguments in asked:
        key = f"{name}, seed {seed}"
        if key not in read(question):
            print(f"{key} ...", file=sys.stderr, flush=True)
            row = trained(arguments, seed, runs)
            RESULTS.mkdir(parents=True, exist_ok=True)
            # Read again: another process may train other rows at the same time.
            write_text(RESULTS / f"{question}.json", json.dumps({**read(question), key: row}, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.budget_trainings", description=__doc__)
    parser.add_argument("questions", nargs="*", default=["prunings", "macs", "emptied", "speed"], metavar="QUESTION")
    parser.add_argument("--runs", type=Path, default=Path("runs"), metavar="DIR", help="where the trainings are kept")
    asked = parser.parse_args()
    for question in asked.questions:
        if question == "emptied":
            for test in (False, True):
                answer(question, emptied(asked.runs / "held-out", test), asked.runs)
        elif question == "speed":
            speed(asked.runs)
        else:
            answer(question, {"macs": macs, "prunings": prunings}[question](), asked.runs)


if __name__ == "__main__":
    main()

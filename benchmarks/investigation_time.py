"""What both tasks of the paper cost beside one dense training: `python -m benchmarks.investigation_time [--quick]`.

`asni investigate` trains a recipe with sparse kernels where they pay (`--kernels auto`) and once without
(`--kernels dense`), on one thread; the seconds are those of its results. Two recipes are shortened by fewer steps in an
epoch, and their tests by as much; Conv6 by fewer epochs too. What `results/sparse-training/investigation.json` has for
this processor is not trained again. `--quick` trains little, and writes nothing.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from asni import recipes
from asni.datasets import info_of
from asni.datasets.cifar10 import CIFAR10
from asni.engine.machine import processor
from asni.engine.native import choice
from asni.files import write_text
from asni.recipes import Recipe

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results" / "sparse-training" / "investigation.json"
STEPS = {"mnist-fc": None, "cifar10-conv2": 60, "cifar10-conv6": 60}
"""Of an epoch; None: those of the recipe. Below 50 steps between two prunings, sparse kernels are not made."""
EPOCHS = {"cifar10-conv6": 10}
"""Where the epochs of the recipe would take too long."""
QUICK_STEPS = 2
KERNELS = ("auto", "dense")
VARIANTS = ("dense", "asni-1", "asni-2", "original")

Row = dict[str, Any]


def headline(row: Mapping[str, Any], kernels: str = "auto") -> float:
    """The seconds of ASNI-I and ASNI-II together, beside those of one dense training.

    >>> headline({"auto": {"dense": {"seconds": 10}, "asni-1": {"seconds": 6}, "asni-2": {"seconds": 2}}})
    0.8
    """
    seconds = {variant: found["seconds"] for variant, found in row[kernels].items()}
    return float((seconds["asni-1"] + seconds["asni-2"]) / seconds["dense"])


def total(row: Mapping[str, Any], kernels: str) -> float:
    """The seconds of all four variants."""
    return float(sum(found["seconds"] for found in row[kernels].values()))


def row_of(name: str, steps: int | None, asked: Sequence[str], folder: Path) -> Row:
    """Investigate a recipe with each choice of kernels that is asked for."""
    recipe = recipes.load(name)
    usual = recipe.steps_per_epoch(info_of(recipe.dataset).train)
    source = name
    if steps is not None and recipe.dataset == "cifar10":
        source = str(_with_fewer_tests(recipe, steps / usual, folder))
    shorter = [] if steps is None else ["--steps-per-epoch", str(steps)]
    shorter += ["--epochs", str(EPOCHS[name])] if name in EPOCHS else []
    return {
        "epochs": EPOCHS.get(name, recipe.training.epochs),
        "epochs_of_the_recipe": recipe.training.epochs,
        "steps_per_epoch": steps or usual,
        "steps_per_epoch_of_the_recipe": usual,
        **{kernels: _investigated(source, shorter, kernels, folder / kernels) for kernels in asked},
        "processor": processor(),
        "instruction_set": choice().isa,
    }


def _investigated(source: str, shorter: Sequence[str], kernels: str, out: Path) -> dict[str, Row]:
    print(f"{Path(source).stem}, --kernels {kernels} ...", file=sys.stderr, flush=True)
    command = [sys.executable, "-m", "asni", "investigate", source, *shorter, "--kernels", kernels]
    done = subprocess.run(
        [*command, "--out", str(out), "--json"],
        env={**os.environ, "OMP_NUM_THREADS": "1"}, stdout=subprocess.PIPE, check=True,
    )  # fmt: skip
    rows = {row["variant"]: row for row in json.loads(done.stdout)}
    return {
        variant: {key: rows[variant][key] for key in ("seconds", "accuracy", "steps", "sparse_steps")}
        for variant in VARIANTS
    }


def _with_fewer_tests(recipe: Recipe, share: float, folder: Path) -> Path:
    """The recipe with this share of the test images, so that the tests take the same part of the time."""
    arrays = asdict(CIFAR10.arrays())
    count = round(share * len(arrays["test_labels"]))
    arrays |= {key: arrays[key][:count] for key in ("test_images", "test_labels")}
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(folder / f"{recipe.name}.npz", **arrays)
    text = (Path(recipes.__file__).parent / f"{recipe.name}.toml").read_text(encoding="utf-8")
    path = folder / f"{recipe.name}.toml"
    write_text(path, text.replace(f'dataset = "{recipe.dataset}"', f'dataset = "./{recipe.name}.npz"'))
    return path


def numbers(rows: Mapping[str, Row]) -> dict[str, float]:
    """What a reader compares, by name."""
    found = {}
    for key, row in rows.items():
        for kernels in row.keys() & {*KERNELS}:
            found[f"ASNI-I and ASNI-II / one dense training, {key}, --kernels {kernels}"] = headline(row, kernels)
        if row.keys() >= {*KERNELS}:
            found[f"all four variants, --kernels dense / auto, {key}"] = total(row, "dense") / total(row, "auto")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.investigation_time", description=__doc__)
    parser.add_argument("recipes", nargs="*", metavar="RECIPE", help=", ".join(STEPS))
    parser.add_argument("--steps", type=int, metavar="N", help="steps in an epoch of a shortened recipe")
    parser.add_argument("--kernels", choices=KERNELS, help="train with these alone")
    parser.add_argument("--runs", type=Path, metavar="DIR", help="where to keep the trainings, to resume them")
    parser.add_argument("--quick", action="store_true", help="train little, and write nothing")
    arguments = parser.parse_args()
    rows: dict[str, Row] = json.loads(RESULTS.read_text()) if RESULTS.exists() and not arguments.quick else {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.runs or Path(temporary)
        for name in arguments.recipes or STEPS:
            key = f"{name}, {processor()}"
            if key not in rows:
                steps = QUICK_STEPS if arguments.quick else STEPS[name] and (arguments.steps or STEPS[name])
                asked = [arguments.kernels] if arguments.kernels else KERNELS
                rows[key] = row_of(name, steps, asked, folder.resolve())
                if not arguments.quick:
                    RESULTS.parent.mkdir(parents=True, exist_ok=True)
                    write_text(RESULTS, json.dumps(rows, indent=1) + "\n")
    for question, number in numbers(rows).items():
        print(f"{number:8.3f}  {question}")


if __name__ == "__main__":
    main()

"""How long ASNI-II's second round must be: `python -m benchmarks.amenable_length [--runs DIR]`.

Accuracy after the last epoch, over the fraction of the epochs that the second round takes, for several seeds, beside
ASNI-I and the dense network. `results/sparse-training/amenable-length.json` is written when all are trained; trainings
that are finished below DIR are not repeated.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from asni.figures import style
from asni.files import write_text

RESULTS = Path(__file__).parents[1] / "results" / "sparse-training" / "amenable-length.json"
FIGURE = RESULTS.with_suffix(".png")
RECIPES = ("digits-fc", "mnist-fc")
SEEDS = (0, 1, 2)
LENGTHS = (0.02, 0.04, 0.06, 0.1, 0.2, 0.4, 1.0)
BESIDE = ("dense", "asni-1")
KEPT = ("seed", "accuracy", "epochs", "steps", "sparse_steps", "nonzeros")

Row = dict[str, Any]
Rows = Mapping[str, Mapping[str, Any]]


def questions(recipes: Sequence[str], seeds: Sequence[int]) -> Iterator[tuple[str, list[str]]]:
    """The key of each training, and the arguments of `asni train`; a network comes before its shorter trainings."""
    for recipe in recipes:
        for seed in seeds:
            for method in BESIDE:
                yield key(recipe, seed, method), [recipe, "--method", method, "--seed", str(seed)]
            for length in LENGTHS:
                arguments = [recipe, "--method", "asni-2", "--seed", str(seed)]
                shorter = ["--amenable-epochs", str(length)] if length < 1 else []
                yield key(recipe, seed, length), [*arguments, *shorter]


def key(recipe: str, seed: int, what: str | float) -> str:
    return f"{recipe}, seed {seed}, {what}"


def trained(arguments: Sequence[str], runs: Path) -> Row:
    """Train as a user would."""
    command = [sys.executable, "-m", "asni", "train", *arguments, "--out", str(runs), "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    result = json.loads(done.stdout)
    return {name: result[name] for name in KEPT}


def found(rows: Rows, recipe: str, what: str | float) -> list[Mapping[str, Any]]:
    """The trainings of all seeds that are there."""
    keys = [key(recipe, seed, what) for seed in SEEDS]
    return [rows[each] for each in keys if each in rows]


def accuracies(rows: Rows, recipe: str, what: str | float) -> list[float]:
    return [row["accuracy"] for row in found(rows, recipe, what)]


def draw(rows: Rows) -> style.Figure:
    """Accuracy over the length, a panel for each recipe: the mean over seeds, and every seed as a dot."""
    with style.applied():
        figure = style.Figure(figsize=(style.PAGE_WIDTH, 2.6), layout="constrained")
        panels = figure.subplots(1, len(RECIPES), squeeze=False)[0]
        looks = dict(zip(("dense", "asni-1", "asni-2"), style.looks(("dense", "asni-1", "asni-2")), strict=True))
        for axes, recipe in zip(panels, RECIPES, strict=True):
            for method in BESIDE:
                if level := accuracies(rows, recipe, method):
                    look = looks[method]
                    axes.axhline(mean(level), color=look.colour, linestyle=look.dashes, label=style.label(method))
            look = looks["asni-2"]
            known = [length for length in LENGTHS if accuracies(rows, recipe, length)]
            for length in known:
                each = accuracies(rows, recipe, length)
                axes.plot([length] * len(each), each, linestyle="none", marker=".", color=style.GREY, markersize=3)
            means = [mean(accuracies(rows, recipe, length)) for length in known]
            axes.plot(known, means, color=look.colour, marker=look.marker, label=style.label("asni-2"))
            axes.set_xscale("log")
            axes.set_xticks(LENGTHS, [f"{length:g}" for length in LENGTHS], minor=False)
            axes.set_xticks([], minor=True)
            axes.set(title=recipe, xlabel="second round, as a fraction of the epochs", ylabel="test accuracy (%)")
            style.grid(axes)
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.amenable_length", description=__doc__)
    parser.add_argument("--runs", type=Path, default=Path("runs"), metavar="DIR", help="where the trainings are kept")
    arguments = parser.parse_args()
    rows: dict[str, Row] = {}
    for name, words in questions(RECIPES, SEEDS):
        print(f"{name} ...", file=sys.stderr, flush=True)
        rows[name] = trained(words, arguments.runs)
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    write_text(RESULTS, json.dumps(rows, indent=1) + "\n")
    with style.applied():
        draw(rows).savefig(FIGURE, dpi=200, metadata={"Software": None})


if __name__ == "__main__":
    main()

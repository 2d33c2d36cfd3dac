"""Complete run directories, written by hand: small, but with every file that a training writes."""

import json
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors.numpy import save_file

from asni.recipes import Recipe, load
from asni.report.collecting import Collection
from tests.runs.sealing import seal

Weights = Mapping[str, npt.NDArray[np.float32]]

WEIGHT = np.array([[0.5, -0.25, 0.0, 0.0], [0.0, 0.75, 0.0, 0.0]], np.float32)


def recipe(**changes: Any) -> Recipe:
    return load("digits-fc").override(epochs=6, sparsity=0.625).model_copy(update=changes)


def make_run(
    directory: Path,
    *,
    asked: Recipe | None = None,
    stage: str = "asni-1",
    method: str | None = None,
    settings: Mapping[str, Any] | None = None,
    seed: int = 0,
    accuracy: float = 91.5,
    result: Mapping[str, Any] | None = None,
    weights: Weights | None = None,
    initial: Weights | None = None,
) -> Path:
    """A run of six epochs that ends with 3 of 8 weights and 2 parameters that are never pruned.

    The mask of other `weights` keeps the nonzero ones; without `initial` there is no file of initial weights.
    """
    directory.mkdir(parents=True)
    request = {"recipe": (asked or recipe()).model_dump(), "stage": stage, "seed": seed, "precision": "fp32"}
    write(directory / "request.json", {**request, "method": method or stage, "settings": settings or {}})
    write(directory / "environment.json", {"asni": version("asni"), "python": "3.11.7", "cuda": None})
    pruned = [0, 1, 3, 4, 5, 5]
    rows = [
        {"epoch": epoch, "loss": 1.0, "accuracy": accuracy - 5 + epoch, "seconds": 0.5, **_sizes(count)}
        for epoch, count in enumerate(pruned)
    ]
    (directory / "metrics.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    weights = {"first.weight": WEIGHT} if weights is None else weights
    save_file({**weights, "first.bias": np.ones(2, np.float32)}, directory / "weights.safetensors")
    save_file({name: values != 0 for name, values in weights.items()}, directory / "mask.safetensors")
    if initial is not None:
        save_file(dict(initial), directory / "initial.safetensors")
    made = {
        "stage": stage,
        "rounds": [stage],
        "seed": seed,
        "epochs": len(rows),
        "steps": 60,
        "accuracy": accuracy,
        "seconds": 2.0,
    }
    write(directory / "result.json", {**made, **_sizes(5), **(result or {})})
    seal(directory)
    return directory


def told(collection: Collection) -> list[str]:
    """What the reader is told about runs that are not shown, or not shown whole."""
    return [notice.text for notice in collection.notices]


def write(path: Path, value: object) -> None:
    path.write_text(json.dumps(value))


def _sizes(pruned: int) -> dict[str, float]:
    return {"nonzeros": 10 - pruned, "sparsity": pruned / 8, "total_sparsity": pruned / 10}

"""Small run directories, written by hand."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors.numpy import save_file

from asni.recipes import load
from tests.runs.sealing import seal


def make_run(
    run: Path,
    weights: Mapping[str, npt.NDArray[np.float32]],
    accuracy: Sequence[float | None] = (90.0, 95.0, 96.0),
    sparsity: Sequence[float | None] = (0.0, 0.4, 0.5),
    mac_density: Sequence[float | None] = (),
    **changes: Any,
) -> Path:
    """A run of digits-fc with these `changes`; without `mac_density`, one from before it was recorded."""
    run.mkdir(parents=True, exist_ok=True)
    asked = load("digits-fc").override(epochs=len(accuracy), **changes)
    (run / "request.json").write_text(json.dumps({"recipe": asked.model_dump()}))
    rows = [{"epoch": e, "accuracy": a, "sparsity": s} for e, (a, s) in enumerate(zip(accuracy, sparsity, strict=True))]
    for row, share in zip(rows, mac_density, strict=False):
        row["mac_density"] = share
    (run / "metrics.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    save_file(dict(weights), run / "weights.safetensors")
    save_file(dict(weights), run / "initial.safetensors")
    seal(run)
    return run


def random_weights(*names: str) -> dict[str, npt.NDArray[np.float32]]:
    """Two rows of a hundred weights for each name; the smaller half is pruned."""
    generator = np.random.default_rng(0)
    made = {}
    for name in names:
        values = generator.normal(size=(2, 100)).astype(np.float32)
        made[f"{name}.weight"] = np.where(np.abs(values) > np.median(np.abs(values)), values, np.float32(0))
    return made

"""Time per figure for a network of the size of ResNet-50, from the run directory to its two files."""

import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from matplotlib.figure import Figure
from safetensors.torch import save_file

from asni import figures, networks
from asni.pruning.layers import prunable
from asni.pruning.masks import keep_largest
from asni.pruning.schedules import kept
from asni.recipes import load

SPARSITY = 0.9


def run() -> dict[str, float]:
    """CPU seconds, which do not depend on the other load of the machine; target: below 5 per figure."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        dense, sparse = _make_runs(Path(folder))
        return {
            f"CPU seconds, {name}, ResNet-50": _seconds(draw, Path(folder) / name)
            for name, draw in _drawings(dense, sparse).items()
        }


def _drawings(dense: Path, sparse: Path) -> dict[str, Callable[[], Figure]]:
    recipe = load("imagenet-resnet50-90")
    compared = {"initial": dense, "dense": dense, "asni-1": sparse, "asni-2": sparse}
    return {
        "training": lambda: figures.training({"dense": dense, "asni-1": sparse}),
        "schedule": lambda: figures.schedule(recipe.training.epochs, SPARSITY, gamma=recipe.gamma, run=sparse),
        "layer-distributions": lambda: figures.layer_distributions(sparse),
        "layer-sparsity": lambda: figures.layer_sparsity(sparse),
        "network-distribution": lambda: figures.network_distribution(compared),
    }


def _seconds(draw: Callable[[], Figure], out: Path) -> float:
    started = time.process_time()
    figures.save(draw(), out)
    return time.process_time() - started


def _make_runs(folder: Path) -> tuple[Path, Path]:
    """The files that figures read: a dense run, and one that keeps the largest tenth of the same random weights."""
    torch.manual_seed(0)
    weights = prunable(networks.build("resnet50", (3, 224, 224), 1000))
    size = sum(weight.numel() for weight in weights.values())
    masks = keep_largest(weights, kept(size, SPARSITY))
    values = {name: weight.detach().contiguous() for name, weight in weights.items()}
    dense, sparse = folder / "dense", folder / "asni-1"
    for directory, sparsity in ((dense, 0.0), (sparse, SPARSITY)):
        directory.mkdir()
        rows = [{"epoch": epoch, "accuracy": 70.0, "sparsity": sparsity} for epoch in range(100)]
        (directory / "metrics.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    save_file(values, dense / "initial.safetensors")
    save_file(values, dense / "weights.safetensors")
    save_file({name: value * masks[name] for name, value in values.items()}, sparse / "weights.safetensors")
    save_file(masks, sparse / "mask.safetensors")
    return dense, sparse

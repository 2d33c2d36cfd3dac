"""The global threshold over ResNet-50's weights, compared with PyTorch's global pruning, and with a second budget."""

from collections.abc import Callable, Mapping
from copy import deepcopy
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.utils.prune import L1Unstructured, global_unstructured

from asni import networks
from asni.pruning.budgets import Goal, keep_within
from asni.pruning.costs import Budget, macs_budget
from asni.pruning.layers import prunable
from asni.pruning.masks import full_masks, keep_largest, weight_count
from asni.pruning.schedules import kept
from asni.pruning.scores import SCORES, keep_highest
from benchmarks.timing import seconds

SPARSITY = 0.8
MACS = 0.15
INPUT = (1, 3, 224, 224)


def run() -> dict[str, float]:
    """The speed-up, the peak extra memory relative to the weights, and what a budget of multiplications costs."""
    torch.set_num_threads(1)
    network = networks.build("resnet50", (3, 224, 224), 1000)
    weights = prunable(network)
    size = weight_count(weights)

    def ours() -> None:
        keep_largest(weights, kept(size, SPARSITY))

    extra = peak_extra_bytes(ours)
    taken = seconds({"asni": ours, "torch": lambda: _prune_with_torch(network)}, rounds=3, warm_up=1)
    return budget_by_threshold(weights, macs_budget(network, weights, MACS, INPUT)) | {
        "torch global_unstructured / asni, ResNet-50 to 80 %": taken["torch"] / taken["asni"],
        "peak extra memory / weights, ResNet-50 to 80 %": extra / (4 * size),
    }


def budget_by_threshold(weights: Mapping[str, Tensor], budget: Budget) -> dict[str, float]:
    """For each score, the time of a mask with a budget that binds, relative to one of as many weights without."""
    full = full_masks(weights)
    keep = kept(weight_count(weights), SPARSITY)
    work = {
        name: {
            "threshold": partial(keep_highest, weights, score, keep, full),
            "budget": partial(keep_within, weights, score, Goal(keep, budget), full),
        }
        for name, score in SCORES.items()
    }
    taken = {name: seconds(contestants, rounds=5, warm_up=1) for name, contestants in work.items()}
    return {
        f"budget of {MACS:.0%} of the MACs / threshold, ResNet-50 to 80 %, {name}": each["budget"] / each["threshold"]
        for name, each in taken.items()
    }


def _prune_with_torch(network: nn.Module) -> None:
    network = deepcopy(network)
    layers = [(module, "weight") for module in network.modules() if isinstance(module, (nn.Conv2d, nn.Linear))]
    global_unstructured(layers, pruning_method=L1Unstructured, amount=SPARSITY)


def peak_extra_bytes(work: Callable[[], object]) -> int:
    """How far `work` raises the process's resident memory at its peak, which Linux records."""
    Path("/proc/self/clear_refs").write_text("5")
    before = resident("VmRSS")
    work()
    return resident("VmHWM") - before


def resident(key: str) -> int:
    """Resident memory of this process in bytes: current (VmRSS) or peak (VmHWM)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(f"{key}:"))

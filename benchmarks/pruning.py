"""The global threshold over ResNet-50's weights, compared with PyTorch's global pruning."""

from collections.abc import Callable
from copy import deepcopy
from pathlib import Path

import torch
from torch import nn
from torch.nn.utils.prune import L1Unstructured, global_unstructured

from asni import networks
from asni.pruning.layers import prunable
from asni.pruning.masks import keep_largest
from asni.pruning.schedules import kept
from benchmarks.timing import seconds

SPARSITY = 0.8


def run() -> dict[str, float]:
    """The speed-up, and the peak extra memory relative to the weights."""
    torch.set_num_threads(1)
    network = networks.build("resnet50", (3, 224, 224), 1000)
    weights = prunable(network)
    size = sum(weight.numel() for weight in weights.values())

    def ours() -> None:
        keep_largest(weights, kept(size, SPARSITY))

    extra = peak_extra_bytes(ours)
    taken = seconds({"asni": ours, "torch": lambda: _prune_with_torch(network)}, rounds=3, warm_up=1)
    return {
        "torch global_unstructured / asni, ResNet-50 to 80 %": taken["torch"] / taken["asni"],
        "peak extra memory / weights, ResNet-50 to 80 %": extra / (4 * size),
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

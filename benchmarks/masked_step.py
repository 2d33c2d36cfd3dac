"""Cost of holding pruned weights: a training step of LeNet-300-100 under ASNI-I relative to a dense one."""

import time
from collections.abc import Callable
from statistics import median
from typing import Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from asni import networks
from asni.methods.asni import ASNI

NETWORKS, TURNS, STEPS, UNTIMED = 9, 40, 20, 3
BATCH, BATCHES = 60, 100
SPARSITY = 0.97


def run() -> dict[str, float]:
    """Steps on changing batches of 60, fused Adam, one thread; 1 is the time of the dense step.

    Where a network lies in memory changes its time by several percent. So each network trains in turns with the
    pruner's hooks and without them, and the ratios of several networks are summarised by their median.
    """
    torch.set_num_threads(1)
    ratios = [_ratios() for _ in range(NETWORKS)]
    names = ("lowest tenth", "median")
    return {
        f"ASNI-I step / dense step on the same network, {name}": median(each[number] for each in ratios)
        for number, name in enumerate(names)
    }


def _ratios() -> tuple[float, float]:
    step, hooks = _training()
    times: dict[bool, list[float]] = {True: [], False: []}
    batch = 0
    for _ in range(TURNS):
        for held in (False, True):
            hooks(held)
            for number in range(STEPS):
                batch = (batch + 1) % BATCHES
                started = time.perf_counter()
                step(batch)
                if number >= UNTIMED:
                    times[held].append(time.perf_counter() - started)
    low, middle = (
        sorted(times[True])[int(share * len(times[True]))] / sorted(times[False])[int(share * len(times[False]))]
        for share in (0.1, 0.5)
    )
    return low, middle


def _training() -> tuple[Callable[[int], None], Callable[[bool], None]]:
    """A step on one of the batches, and a switch for the pruner's hooks."""
    network: nn.Module = networks.build("fc", (1, 28, 28), 10)
    optimizer = torch.optim.Adam(network.parameters(), lr=1.2e-3, fused=True)
    ASNI(network, optimizer, sparsity=SPARSITY, total_steps=10**9, epochs=2).prune(SPARSITY)
    images, labels = torch.randn(BATCHES, BATCH, 1, 28, 28), torch.randint(10, (BATCHES, BATCH))
    places: list[dict[int, Any]] = [optimizer._optimizer_step_pre_hooks, optimizer._optimizer_step_post_hooks]
    registered = [(hooks, dict(hooks)) for hooks in places]

    def step(batch: int) -> None:
        optimizer.zero_grad()
        cross_entropy(network(images[batch]), labels[batch]).backward()
        optimizer.step()

    def switch(on: bool) -> None:
        for hooks, own in registered:
            hooks.clear()
            hooks.update(own if on else {})

    return step, switch

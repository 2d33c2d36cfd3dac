"""Training steps on the nonzeros beside dense ones: `python -m benchmarks.sparse_training [--save] [NETWORK ...]`.

One row for each network, mask and instruction set, in a process of its own, where torch uses no more of the processor
than asni does. A step is forward, loss, backward and optimiser, on one thread, with the batch size and the optimiser of
the recipe. Ours, dense and dense channels_last take turns. `--save` writes `results/sparse-training/speed.json`; a row
that is there for this processor is not measured again: remove it there to measure it anew.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from asni import recipes
from asni.engine.comparing.bench import interleaved
from asni.engine.graph import Array
from asni.engine.machine import processor
from asni.engine.native import TITLES, VARIABLE, choice
from asni.files import write_text
from asni.pruning.layers import prunable
from asni.recipes import Recipe
from asni.sparse.stepper import Stepper
from asni.training.optimizers import make_optimizer
from benchmarks.masked_networks import MASKS, RECIPES, Masked, masked

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results" / "sparse-training" / "speed.json"
COMMAND = "python -m benchmarks.sparse_training --save"
NETWORKS = tuple(name for name in RECIPES if name != "ResNet-50")
SETS = {
    "v3": {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"},
    "v4": {},
}
"""The instruction sets to measure with, and what keeps torch from using more of the processor."""
OURS, DENSE = "asni", ("dense", "dense, channels_last")
SECONDS, QUICK_SECONDS = 8.0, 2.0
STILL = 1e-9
"""A learning rate that leaves the weights where they are: on one batch the gradients would soon vanish."""
TOLERANCE = 1e-3

Row = dict[str, Any]
Calls = Mapping[str, Callable[[], object]]


def run() -> dict[str, float]:
    """Multiples of the speed of the faster dense step; above 1 is faster."""
    return numbers(dict(measured(NETWORKS, QUICK_SECONDS, known={})))


def numbers(rows: Mapping[str, Row]) -> dict[str, float]:
    """What a reader compares, by name."""
    found: dict[str, float] = {}
    for key, row in rows.items():
        found[f"step as a multiple of the faster dense one, {key}"] = multiple(row)
        found[f"two threads as a multiple of one, {key}"] = on_two(row)
        found[f"memory / activations, {key}"] = memory(row) / row["memory"]["activations"]
    return found


def multiple(row: Mapping[str, Any], statistic: str = "quantile_ms") -> float:
    """How many times as fast as the faster dense step ours is."""
    return float(min(row["steps"][name][statistic] for name in DENSE) / row["steps"][OURS][statistic])


def on_two(row: Mapping[str, Any], statistic: str = "quantile_ms") -> float:
    """How many times as fast two threads are as one, in wall time."""
    return float(row["threads"]["1"][statistic] / row["threads"]["2"][statistic])


def memory(row: Mapping[str, Any]) -> int:
    """All bytes that training on the nonzeros takes."""
    return sum(row["memory"][part] for part in ("values", "scratch", "tables"))


def measured(networks: Sequence[str], seconds: float, known: Mapping[str, Row]) -> Iterator[tuple[str, Row]]:
    """The rows that are not `known` yet, each measured when its turn comes."""
    for network in networks:
        for mask in MASKS:
            for isa in _sets():
                key = f"{network}, {mask}, {TITLES[isa]}, {processor()}"
                if key not in known and (row := _in_own_process(key, network, mask, isa, seconds)):
                    yield key, row


def _sets() -> list[str]:
    return [isa for isa in SETS if choice().supported.get(isa)] or [choice().isa]


def _in_own_process(key: str, network: str, mask: str, isa: str, seconds: float) -> Row | None:
    print(f"{key} ...", file=sys.stderr)
    command = [sys.executable, "-m", "benchmarks.sparse_training", "--row", network, mask, str(seconds)]
    environment = {**os.environ, VARIABLE: isa, **SETS.get(isa, {})}
    done = subprocess.run(command, env=environment, cwd=ROOT, stdout=subprocess.PIPE, check=True)
    row: Row | None = json.loads(done.stdout)
    return row


def row_of(network: str, mask: str, seconds: float) -> Row | None:
    """Measure here and now; None if there is no such mask."""
    torch.set_num_threads(1)
    found = masked(network, mask)
    if found is None:
        return None
    recipe = recipes.load(RECIPES[network]).override(lr=STILL)
    size = recipe.training.batch_size
    torch.manual_seed(0)
    images, labels = torch.randn(size, *found.shape), torch.randint(10, (size,))
    started = time.perf_counter()
    ours = _stepper(found, recipe, threads=1)
    built = time.perf_counter() - started
    steps: Calls = {
        OURS: lambda: ours.step(images, labels, weight=1.0),
        DENSE[0]: _dense(found.module, recipe, images, labels, torch.contiguous_format),
        DENSE[1]: _dense(found.module, recipe, images, labels, torch.channels_last),
    }
    _require_same_loss(steps)
    on_two = _stepper(found, recipe, threads=2)
    threads: Calls = {"1": steps[OURS], "2": lambda: on_two.step(images, labels, weight=1.0)}
    return {
        "batch": size,
        "optimizer": recipe.training.optimizer,
        "density": found.density,
        "mac_density": found.mac_density,
        "trained": found.trained,
        "processor": processor(),
        "instruction_set": choice().isa,
        "versions": {"torch": torch.__version__},
        "command": COMMAND,
        "about": ours.about,
        "build_seconds": built,
        "memory": _memory(ours),
        "steps": _timed(steps, seconds, time.thread_time),
        "threads": _timed(threads, seconds / 2, time.perf_counter),
    }


def _stepper(network: Masked, recipe: Recipe, *, threads: int) -> Stepper:
    model = deepcopy(network.module).train()
    masks = {name: weight.detach() != 0 for name, weight in prunable(model).items()}
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        optimizer = make_optimizer(model, recipe)
        return Stepper(model, optimizer, masks, batch_size=recipe.training.batch_size, shape=network.shape)
    finally:
        torch.set_num_threads(before)


def _dense(
    module: nn.Module, recipe: Recipe, images: Tensor, labels: Tensor, memory_format: torch.memory_format
) -> Callable[[], Tensor]:
    """A step as PyTorch takes it, without holding pruned weights at zero, which would cost more."""
    model = deepcopy(module).train().to(memory_format=memory_format)  # type: ignore[call-overload]
    optimizer = make_optimizer(model, recipe)
    x = images.contiguous(memory_format=memory_format)

    def step() -> Tensor:
        loss = cross_entropy(model(x), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def _require_same_loss(steps: Calls) -> None:
    """The first step also makes the state of the optimisers."""
    losses = {name: float(step()) for name, step in steps.items()}  # type: ignore[arg-type]
    for name in DENSE:
        if abs(losses[OURS] - losses[name]) > TOLERANCE * abs(losses[name]):
            raise AssertionError(f"the losses differ: {losses}")


def _timed(calls: Calls, seconds: float, clock: Callable[[], float]) -> dict[str, Row]:
    """Milliseconds of a step of each; they take turns, so that a slow moment affects all of them."""
    return {name: _summary(taken) for name, taken in interleaved(calls, seconds, clock).items()}


def _summary(taken: Sequence[float]) -> Row:
    quantile, median = (1000 * float(value) for value in np.quantile(taken, (0.25, 0.5)))
    return {"quantile_ms": quantile, "median_ms": median, "rounds": len(taken)}


def _memory(stepper: Stepper) -> dict[str, int]:
    """Bytes: of all values and gradients of a batch, of scratch memory, of tables and vectors; of the values alone."""
    network = stepper.network
    held, layouts = network._memory, network._draft.layouts
    floats = sum(layouts[name].floats for name in dict.fromkeys(network._values.maps.values()))
    vector, optimizer = network.vector, stepper.optimizer
    tables = [
        *held.program._arrays, vector.weights, vector.gradient, optimizer._first, optimizer._second,
        *(each.index for each in vector.slices.values() if each.index is not None),
        *(site.walk.order for site in network.sites.values()),
    ]  # fmt: skip
    return {
        "values": held._arena.nbytes,
        "scratch": held._scratch.nbytes,
        "tables": sum({id(whole): whole.nbytes for whole in map(_whole, tables)}.values()),
        "activations": floats * network.groups * 4,
    }


def _whole(array: Array) -> Array:
    """The array that a view is a part of."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def save(networks: Sequence[str], seconds: float) -> dict[str, Row]:
    """Measure what is not saved yet; every row is saved when it is there."""
    rows: dict[str, Row] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for key, row in measured(networks, seconds, rows):
        rows[key] = row
        RESULTS.parent.mkdir(parents=True, exist_ok=True)
        write_text(RESULTS, json.dumps(rows, indent=1) + "\n")
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sparse_training", description=__doc__)
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help=", ".join(NETWORKS))
    parser.add_argument("--save", action="store_true", help=f"write {RESULTS.relative_to(ROOT)}")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="how long the steps of a row are timed")
    parser.add_argument("--row", nargs=3, metavar=("NETWORK", "MASK", "SECONDS"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.row:
        network, mask, seconds = arguments.row
        json.dump(row_of(network, mask, float(seconds)), sys.stdout)
        return
    networks = arguments.networks or NETWORKS
    rows = save(networks, arguments.seconds) if arguments.save else dict(measured(networks, arguments.seconds, {}))
    for name, number in numbers(rows).items():
        print(f"{number:8.2f}  {name}")


if __name__ == "__main__":
    main()

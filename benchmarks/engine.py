"""The engine beside other runtimes on the paper's networks: `python -m benchmarks.engine [--quick] [NETWORK ...]`.

One row for each network, mask and batch size. All runtimes of a row run in this process and take turns, each on one
thread, after their results were compared with those of PyTorch in float64. A row that is in `results/engine/speed.json`
is not measured again: remove it there to measure it anew. `--quick` times little, and writes nothing.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from asni.engine.comparing.bench import TOLERANCE, difference, interleaved, peak_growth
from asni.engine.comparing.opponents import Opponent, Prepared, available
from asni.engine.engine import compile
from asni.engine.frontends.from_torch import graph_of_module
from asni.engine.graph import Array
from asni.engine.machine import processor
from asni.engine.native import choice
from asni.engine.to_onnx import write_onnx
from asni.files import write_text
from benchmarks.masked_networks import MASKS, RECIPES, Masked, masked

RESULTS = Path(__file__).parents[1] / "results" / "engine" / "speed.json"
BASE = "onnxruntime"
OURS, OURS_ON_TWO = "asni", "asni, 2 threads"
BATCHES = (1, 64)
LARGE = {"ResNet-50"}
"""Only at batch 1: a batch of 64 takes seconds."""
SECONDS, QUICK_SECONDS = 6.0, 2.0
CHECKED = 4

Row = dict[str, Any]


def run() -> dict[str, float]:
    """Multiples of the speed of ONNX Runtime; above 1 is faster."""
    rows: dict[str, Row] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for key, measure in _questions(tuple(RECIPES), SECONDS):
        if key not in rows:
            rows[key] = measure()
            RESULTS.parent.mkdir(parents=True, exist_ok=True)
            write_text(RESULTS, json.dumps(rows, indent=1) + "\n")
    return multiples(rows)


def multiples(rows: dict[str, Row]) -> dict[str, float]:
    return {
        f"{name}, {key}": row["runtimes"][BASE]["quantile_ms"] / found["quantile_ms"]
        for key, row in rows.items()
        for name, found in row["runtimes"].items()
        if "quantile_ms" in found and name != BASE
    }


def _questions(networks: Sequence[str], seconds: float) -> Iterator[tuple[str, Callable[[], Row]]]:
    """What can be measured, by its key; a network is built when its turn comes."""
    for name in networks:
        for mask in MASKS:
            network = masked(name, mask)
            if network is None:
                continue
            for batch in BATCHES[:1] if name in LARGE else BATCHES:
                yield f"{name}, {mask}, batch {batch}", _measurement(network, batch, seconds)


def _measurement(network: Masked, batch: int, seconds: float) -> Callable[[], Row]:
    def measure() -> Row:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "network.onnx"
            write_onnx(graph_of_module(network.module, torch.randn(2, *network.shape)), path)
            return _row(network, path, batch, seconds)

    return measure


def _row(network: Masked, path: Path, batch: int, seconds: float) -> Row:
    x = np.random.default_rng(0).standard_normal((batch, *network.shape), np.float32)
    checked = np.unique(np.linspace(0, batch - 1, CHECKED).astype(int))
    reference = _in_float64(network.module, x[checked])
    compiled = _compiled(path, x)
    runtimes: dict[str, Row] = {}
    calls: dict[str, Callable[[], object]] = {}
    for name, prepare in _contestants(path, x):
        prepared, memory = peak_growth(prepare)
        found = difference(prepared.run(x)[checked], reference)
        runtimes[name] = {"difference": found, "memory_bytes": memory, "file_bytes": prepared.file_bytes}
        if found <= TOLERANCE:
            calls[name] = _call(prepared, x)
    for name, times in interleaved(calls, seconds).items():
        quantile, median = (1000 * float(value) for value in np.quantile(times, (0.25, 0.5)))
        runtimes[name] |= {"quantile_ms": quantile, "median_ms": median, "rounds": len(times)}
    return {
        "batch": batch,
        "density": network.density,
        "mac_density": network.mac_density,
        "trained": network.trained,
        "processor": processor(),
        "instruction_set": choice().isa,
        "versions": {each.name: each.version for each in available()},
        **compiled,
        "runtimes": runtimes,
    }


def _compiled(path: Path, x: Array) -> Row:
    """How long compiling takes when nothing is known of the network yet, and what it decides for each layer."""
    started = time.perf_counter()
    engine = compile(path, example=x, threads=1)
    return {"compile_seconds": time.perf_counter() - started, "plan": [asdict(layer) for layer in engine.plan]}


def _contestants(path: Path, x: Array) -> list[tuple[str, Callable[[], Prepared]]]:
    def other(each: Opponent) -> Callable[[], Prepared]:
        each.load()
        return lambda: each.prepare(path, x, 1)

    def ours(threads: int) -> Callable[[], Prepared]:
        return lambda: _ours(path, x, threads)

    found = [(OURS, ours(1)), *((each.name, other(each)) for each in available())]
    return [*found, (OURS_ON_TWO, ours(2))] if len(x) > 1 else found


def _ours(path: Path, x: Array, threads: int) -> Prepared:
    engine = compile(path, example=x, threads=threads)
    return Prepared(lambda x: np.asarray(engine(x)), path.stat().st_size)


def _call(prepared: Prepared, x: Array) -> Callable[[], object]:
    return lambda: prepared.run(x)


def _in_float64(module: nn.Module, x: Array) -> Array:
    with torch.inference_mode():
        result = module.double()(torch.from_numpy(x).double()).numpy()
    module.float()
    return np.asarray(result)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.engine", description=__doc__)
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help=", ".join(RECIPES))
    parser.add_argument("--quick", action="store_true", help="time little, and write nothing")
    arguments = parser.parse_args()
    if not arguments.quick:
        found = run()
    else:
        found = {}
        for key, measure in _questions(arguments.networks or tuple(RECIPES), QUICK_SECONDS):
            print(f"{key} ...", file=sys.stderr)
            found |= multiples({key: measure()})
    for name, number in found.items():
        print(f"{number:8.2f}  {name}")


if __name__ == "__main__":
    main()

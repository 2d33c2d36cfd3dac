"""What the weights of each layer take in the engine on this machine, measured; and budgets in milliseconds.

The whole network is compiled at a few densities, with random masks of the same density in every layer. The tuner times
each step in place; calls of the whole network, which take turns, say what all steps take together. The increase of the
whole from one density to the next is divided between the layers as their own steps increase, so that the tables add up
to what was measured, and more weights never take less.
"""

import hashlib
import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from numbers import Real
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import torch
from torch import Tensor, nn

from asni.display import on_stderr
from asni.engine.comparing.bench import interleaved
from asni.engine.engine import Engine, compile, items_of
from asni.engine.frontends.from_torch import graph_of_module
from asni.engine.fusing import fuse
from asni.engine.graph import Array, Graph
from asni.engine.lowering import lower
from asni.engine.machine import processor
from asni.engine.native import ABI, choice, library
from asni.errors import AsniError, EngineError, UsageError, shown
from asni.files import expanded, read_bounded, write_text
from asni.pruning.costs import Budget, Costs, Table
from asni.pruning.layers import Layers, prunable

Example = Array | Tensor | tuple[Array | Tensor, ...]

UNIT = "ms"
DENSITIES = (0, 1 / 128, 1 / 32, 1 / 16, 1 / 8, 3 / 16, 1 / 4, 1 / 2, 1)
"""At 0 each layer has one weight: one without any would be folded into a constant. Dense kernels win from about 0.2."""
SECONDS_OF_TABLE, SECONDS_OF_NETWORK = 5.0, 2.0
"""How long whole networks are called: all densities in turns, and a finished one."""
TURN_SECONDS = 0.002
"""Shorter than the slices of time that other programs get, so that most turns are not disturbed."""
QUANTILE = 0.25
"""Other work on the machine makes calls slower, never faster."""
LEAST_RESOLUTION = 1e-6
VERSION = 1
_LIMIT = 16 << 20

_log = logging.getLogger("asni.engine")


def layer_times(
    model: nn.Module,
    example: Example,
    *,
    threads: int = 1,
    cache: str | Path | None = None,
    **layers: Unpack[Layers],
) -> Costs:
    """What the weights of each prunable layer take in the engine, in milliseconds of one call with the example.

    Costs(layers, fixed, unit="ms"): a table for each layer, from none of its weights to all, and what all else takes.
    The values of the weights do not matter. It takes some seconds for each of the densities, and is kept in the folder
    `cache`, by default in the user's cache folder: for this network, this batch size, these threads and this processor.

    >>> import asni, tempfile, torch
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     costs = asni.layer_times(torch.nn.Linear(40, 10), torch.zeros(1, 40), cache=folder)
    >>> (table,) = costs.layers["weight"]
    >>> table.counts
    (0, 1, 3, 12, 25, 50, 75, 100, 200, 400)
    """
    _require_core()
    network = _Network(model, example, threads, prunable(model, **layers))
    key = network.key()
    path = _folder(cache) / f"{hashlib.sha256(json.dumps(key).encode()).hexdigest()[:32]}.json"
    known = _read(path, key, network)
    if known is None:
        with on_stderr().status(f"Measuring the layers in the engine at {len(DENSITIES)} densities"):
            known = network.measured()
        # It only saves time: a folder that cannot be written to is no reason to fail.
        with suppress(AsniError):
            _write(path, key, known)
    return network.costs(known)


def latency_budget(
    model: nn.Module,
    example: Example,
    *,
    milliseconds: float | None = None,
    speedup: float | None = None,
    threads: int = 1,
    cache: str | Path | None = None,
    **layers: Unpack[Layers],
) -> Budget:
    """A budget for pruners: so many milliseconds for a call with the example, or so many times as fast as dense.

    Dense is the network with all its weights in the same engine. See `layer_times` for what is measured and kept.

    >>> import asni, tempfile, torch
    >>> model = torch.nn.Sequential(torch.nn.Linear(40, 200), torch.nn.ReLU(), torch.nn.Linear(200, 10))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     budget = asni.latency_budget(model, torch.zeros(64, 40), speedup=1.5, cache=folder)
    >>> round(budget.whole / budget.limit, 6), budget.costs.unit
    (1.5, 'ms')
    """
    if (milliseconds is None) == (speedup is None):
        raise UsageError("a budget of time takes one of milliseconds= and speedup=.")
    for name, value in (("milliseconds", milliseconds), ("speedup", speedup)):
        if value is not None and (
            not isinstance(value, Real | float) or isinstance(value, bool) or not 0 < value < inf
        ):
            raise UsageError(f"{name} must be a number above 0, not {value!r}.")
    costs = layer_times(model, example, threads=threads, cache=cache, **layers)
    limit = costs.dense / speedup if speedup is not None else milliseconds
    assert limit is not None
    return Budget(costs, float(limit), costs.dense)


def timed(model: nn.Module, example: Example, *, threads: int = 1) -> float:
    """The milliseconds that a call of the compiled network takes here: the lower quartile of calls in a few seconds.

    >>> import asni, torch
    >>> asni.timed(torch.nn.Linear(40, 10), torch.zeros(1, 40)) > 0
    True
    """
    _require_core()
    engine = compile(model, example, threads=threads)
    return _milliseconds({"": engine}, _inputs(_examples(example)), SECONDS_OF_NETWORK, threads)[""]


@dataclass(frozen=True)
class _Times:
    """Milliseconds at each density for each layer, and what all else takes."""

    layers: Mapping[str, Sequence[float]]
    fixed: float


class _Network:
    """A network whose prunable weights can be given any density."""

    def __init__(self, model: nn.Module, example: Example, threads: int, weights: Mapping[str, Tensor]) -> None:
        if type(threads) is not int or threads < 1:
            raise UsageError(f"threads must be a whole number of at least 1, not {threads!r}.")
        examples = _examples(example)
        if not all(isinstance(each, np.ndarray | Tensor) for each in examples):
            raise UsageError("example is an input of the model, such as torch.zeros(1, 3, 32, 32), or a tuple of them.")
        self.graph = graph_of_module(model, tuple(map(_as_tensor, examples)))
        self.inputs, self.threads = _inputs(examples), threads
        self.sizes = {name: weight.numel() for name, weight in weights.items()}
        self.constants = _constants_of(self.graph, model, weights)
        self.owners = _owners(self.graph, self.constants)
        steps = fuse(lower(self.graph))
        self.items = items_of(steps, self.inputs)
        multiplied = {self.owners.get(step.name) for step in steps.steps if "weight" in step.constants}
        for name in weights:
            if name not in multiplied:
                raise EngineError(
                    f"{shown(name)} is not what a step of the engine multiplies by, so its time cannot be measured. "
                    "Leave it out with exclude=."
                )

    def key(self) -> dict[str, Any]:
        """What the times depend on; not on the values of weights that are pruned."""
        nodes = [(node.op, node.name, node.inputs, node.outputs, dict(node.attributes)) for node in self.graph.nodes]
        others = [
            (name, array.shape, array.tolist() if array.dtype.kind in "iub" else int(np.count_nonzero(array)))
            for name, array in self.graph.constants.items()
            if name not in self.constants
        ]
        network = repr((nodes, self.graph.inputs, self.graph.outputs, others, self.sizes))
        return {
            "version": VERSION,
            "core": ABI,
            "instruction set": choice().isa,
            "processor": processor(),
            "network": hashlib.sha256(network.encode()).hexdigest(),
            "inputs": [list(array.shape) for array in self.inputs],
            "threads": self.threads,
            "densities": list(DENSITIES),
        }

    def counts(self, name: str) -> list[int]:
        """How many weights of a layer live at each density."""
        return [max(1, round(density * self.sizes[name])) for density in DENSITIES]

    def measured(self) -> _Times:
        engines = {
            place: self.engine({name: self.counts(name)[place] for name in self.sizes})
            for place in range(len(DENSITIES))
        }
        taken = _milliseconds(engines, self.inputs, SECONDS_OF_TABLE, self.threads)
        parts = [self.parts(engine) for engine in engines.values()]
        return added_up([taken[place] for place in engines], [each for each, _ in parts], [rest for _, rest in parts])

    def engine(self, counts: Mapping[str, int]) -> Engine:
        """The network with so many weights in each layer, at random places."""
        random = np.random.default_rng(0)
        constants = dict(self.graph.constants)
        for constant, name in self.constants.items():
            constants[constant] = _thinned(constants[constant], counts[name], random)
        steps = fuse(lower(replace(self.graph, constants=constants)))
        return Engine(steps, threads=self.threads, items=self.items)

    def parts(self, engine: Engine) -> tuple[dict[str, float], float]:
        """What the steps of each layer take, and all others together; a layer that runs twice counts twice."""
        layers, rest = dict.fromkeys(self.sizes, 0.0), 0.0
        for row in engine.plan:
            name = self.owners.get(row.name) if row.density is not None else None
            if name is None:
                rest += row.milliseconds
            else:
                layers[name] += row.milliseconds
        return layers, rest

    def costs(self, times: _Times) -> Costs:
        return Costs({name: (self.table(name, times.layers[name]),) for name in self.sizes}, times.fixed, UNIT)

    def table(self, name: str, costs: Sequence[float]) -> Table:
        # Of several densities that leave as many weights in a small layer, the last has the largest cost.
        points = dict(zip(self.counts(name), costs, strict=True))
        return Table((0, *points), (costs[0], *points.values()))


def added_up(whole: Sequence[float], parts: Sequence[Mapping[str, float]], rest: Sequence[float]) -> _Times:
    """Times of layers that add up to the whole at each density, and never fall.

    >>> added_up([3.0, 7.0, 6.0], [{"a": 1.0, "b": 1.0}, {"a": 2.0, "b": 4.0}, {"a": 2.0, "b": 3.0}], [1.0] * 3)
    _Times(layers={'a': [1.0, 2.0, 2.0], 'b': [1.0, 4.0, 4.0]}, fixed=1.0)
    """
    whole = np.maximum.accumulate(whole).tolist()
    shares = [all_else / (all_else + sum(each.values())) for each, all_else in zip(parts, rest, strict=True)]
    fixed = min(whole[0], float(np.median([taken * share for taken, share in zip(whole, shares, strict=True)])))
    now = dict.fromkeys(parts[0], 0.0)
    layers: dict[str, list[float]] = {name: [] for name in now}
    before, last = now, fixed
    for taken, each in zip(whole, parts, strict=True):
        more = {name: max(0.0, each[name] - before[name]) for name in each}
        # Where no layer takes more, the whole does by chance: as much for each millisecond.
        weights = next(found for found in (more, each, dict.fromkeys(each, 1.0)) if any(found.values()))
        factor = (taken - last) / sum(weights.values())
        now = {name: now[name] + factor * weights[name] for name in now}
        for name, milliseconds in now.items():
            layers[name].append(milliseconds)
        before, last = dict(each), taken
    return _Times(layers, fixed)


def _thinned(weight: Array, count: int, random: np.random.Generator) -> Array:
    """So many random weights; larger where they are few, so that no signal fades to numbers that take longer."""
    spread = float(np.sqrt(np.mean(np.square(weight)))) or weight[0].size ** -0.5
    thinned = np.zeros(weight.size, np.float32)
    density = max(count / weight.size, 1 / weight[0].size)
    thinned[random.choice(weight.size, count, replace=False)] = random.standard_normal(count) * spread / density**0.5
    return thinned.reshape(weight.shape)


def _constants_of(graph: Graph, model: nn.Module, weights: Mapping[str, Tensor]) -> dict[str, str]:
    """From the constants of a graph to the prunable weights that they are, whichever of its names a weight has."""
    names = {id(weight): name for name, weight in weights.items()}
    known = model.named_parameters(remove_duplicate=False)
    return {alias: names[id(each)] for alias, each in known if alias in graph.constants and id(each) in names}


def _owners(graph: Graph, constants: Mapping[str, str]) -> dict[str, str]:
    """From nodes to the weight that they multiply by, as it is or moved by nodes that have no other input."""
    sources = {name: {constants[name]} if name in constants else set[str]() for name in graph.constants}
    owners: dict[str, str] = {}
    for node in graph.nodes:
        given = [name for name in node.inputs if name]
        found = {owner for name in given for owner in sources.get(name, ())}
        if all(name in sources for name in given):
            sources |= dict.fromkeys(node.outputs, found)
        elif len(found) == 1:
            owners[node.name] = found.pop()
    return owners


def _milliseconds(
    engines: Mapping[Any, Engine], inputs: Sequence[Array], seconds: float, threads: int
) -> dict[Any, float]:
    """What a call of each engine takes. The clock of one thread stops while others have its core."""
    is_exact = time.get_clock_info("thread_time").resolution < LEAST_RESOLUTION
    clock = time.thread_time if threads == 1 and is_exact else time.perf_counter
    calls: dict[Any, Callable[[], object]] = {key: partial(engine, *inputs) for key, engine in engines.items()}
    times = interleaved(calls, seconds, clock, TURN_SECONDS)
    return {key: 1000 * float(np.quantile(each, QUANTILE)) for key, each in times.items()}


def _examples(example: Example) -> tuple[Array | Tensor, ...]:
    return example if isinstance(example, tuple) else (example,)


def _as_tensor(example: Array | Tensor) -> Tensor:
    return example if isinstance(example, Tensor) else torch.from_numpy(example)


def _inputs(examples: Sequence[Array | Tensor]) -> list[Array]:
    """Random inputs of the same shapes: zeros would take other times in some kernels."""
    random = np.random.default_rng(0)
    return [random.standard_normal(tuple(each.shape), np.float32) for each in examples]


def _require_core() -> None:
    if library() is None:
        raise EngineError(
            f"times of layers are those of the native core, and NumPy runs here ({choice().why}). "
            "`asni doctor` says what is missing."
        )


def _folder(cache: str | Path | None) -> Path:
    if cache is not None:
        return expanded(cache, "cache")
    from platformdirs import user_cache_path

    return user_cache_path("asni") / "layer-times"


def _read(path: Path, key: Mapping[str, Any], network: _Network) -> _Times | None:
    """The times in a file, if there is one and it has them."""
    try:
        content = json.loads(read_bounded(path, _LIMIT))
        if content["key"] != key:
            raise ValueError("of another network")
        return _checked(content["fixed"], content["layers"], list(network.sizes))
    except FileNotFoundError:
        return None
    except (OSError, KeyError, TypeError, ValueError, AttributeError, RecursionError):
        _log.warning("asni: %s is not a table of times, or is damaged; measuring again.", shown(path))
        return None


def _checked(fixed: Any, layers: Mapping[str, Any], names: Sequence[str]) -> _Times:
    if sorted(layers) != sorted(names):
        raise ValueError("other layers")
    for costs in ([fixed], *layers.values()):
        if not all(type(cost) is float and 0 <= cost < inf for cost in costs) or costs != sorted(costs):
            raise ValueError("no times")
    if any(len(costs) != len(DENSITIES) for costs in layers.values()):
        raise ValueError("other densities")
    return _Times({name: layers[name] for name in names}, fixed)


def _write(path: Path, key: Mapping[str, Any], times: _Times) -> None:
    content = {"key": key, "fixed": times.fixed, "layers": times.layers}
    write_text(path, json.dumps(content, indent=1) + "\n")

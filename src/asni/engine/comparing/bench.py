"""How fast a network runs here beside other runtimes: in one process, in turns, and only if their results are right."""

import ctypes
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from asni.display import on_stderr
from asni.engine.comparing.opponents import Opponent, Prepared
from asni.engine.frontends.graph_file import read_graph
from asni.engine.graph import BATCH, Array, Graph
from asni.errors import EngineError, UsageError, shown

OURS = "asni"
SECONDS = 10.0
"""How long a batch size is timed."""
LEAST_ROUNDS, MOST_ROUNDS = 5, 100
TURN_SECONDS = 0.03
"""How long a runtime is called in its turn: one call, or as many as fit."""
TOLERANCE = 1e-3
"""A larger difference from the reference, relative to its largest value, is wrong: bf16 is, Winograd is not."""
MOST_CHECKED = 4
"""Items of a batch that are computed by the reference too, which is slow."""


@dataclass(frozen=True)
class Row:
    """A runtime at one batch size: times are of one call, memory is how far loading and running raised the peak."""

    runtime: str
    version: str
    batch: int
    threads: int
    state: Literal["right", "wrong", "failed"]
    reason: str = ""
    difference: float | None = None
    median_ms: float | None = None
    quantile_ms: float | None = None
    items_per_second: float | None = None
    memory_bytes: int | None = None
    file_bytes: int | None = None
    speed_up: float | None = None
    """How many times as fast as this runtime ours is."""


@dataclass(frozen=True)
class Comparison:
    """The rows of all batch sizes, and the plan of the engine for each."""

    rows: Sequence[Row]
    plans: Mapping[str, Sequence[Mapping[str, Any]]]

    def to_json(self) -> dict[str, Any]:
        return {"rows": [asdict(row) for row in self.rows], "plans": self.plans}


def best_other(rows: Sequence[Row]) -> Row | None:
    """The fastest runtime beside ours, among those with right results."""
    others = [row for row in rows if row.runtime != OURS and row.quantile_ms is not None]
    return min(others, key=lambda row: row.quantile_ms or 0.0, default=None)


def setting(batch: int, threads: int) -> str:
    """
    >>> setting(64, 1)
    'batch 64, 1 thread'
    """
    return f"batch {batch}, {threads} thread{'s' * (threads > 1)}"


def compare(file: Path, batches: Sequence[int], threads: Sequence[int], opponents: Sequence[Opponent]) -> Comparison:
    """Time a network, an .asni file with its graph or an .onnx file, in the engine and in other runtimes."""
    with on_stderr().status(f"Reading {file}"):
        graph = graph_of(file)
        shape = _item_shape(file, graph, batches)
    rows: list[Row] = []
    plans = {}
    with _as_onnx(file, graph) as onnx:
        for count in threads:
            for batch in batches:
                found, plan = _compare_one(file, onnx, graph, (batch, *shape), count, opponents)
                rows += found
                plans[setting(batch, count)] = plan
    return Comparison(rows, plans)


def graph_of(file: Path) -> Graph:
    """The graph of an .asni or .onnx file."""
    if file.suffix == ".onnx":
        from asni.engine.frontends.from_onnx import read_onnx_graph

        return read_onnx_graph(file)
    return read_graph(file)


def interleaved(
    calls: Mapping[str, Callable[[], object]],
    seconds: float,
    clock: Callable[[], float] = time.perf_counter,
    turn: float | None = None,
) -> dict[str, list[float]]:
    """Seconds of a call of each, once a round; they take turns, so that a slow moment affects all of them."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    started = time.perf_counter()
    for number in range(MOST_ROUNDS):
        if number >= LEAST_ROUNDS and time.perf_counter() - started > seconds:
            break
        for name, call in calls.items():
            times[name].append(_turn(call, clock, TURN_SECONDS if turn is None else turn))
    return times


def difference(result: Array, reference: Array) -> float:
    """The largest difference relative to the largest value of the reference; infinite if they cannot be compared.

    >>> difference(np.array([1.0, 3.0]), np.array([1.0, 4.0])), difference(np.ones(2), np.ones(3))
    (0.25, inf)
    """
    if result.shape != reference.shape:
        return float("inf")
    finite = np.isfinite(reference)
    if not np.array_equal(result[~finite], reference[~finite], equal_nan=True):
        return float("inf")
    largest = float(np.abs(reference[finite]).max(initial=0.0)) or 1.0
    found = float(np.abs(result[finite] - reference[finite]).max(initial=0.0)) / largest
    return found if np.isfinite(found) else float("inf")


def peak_growth(work: Callable[[], Prepared]) -> tuple[Prepared, int | None]:
    """What `work` returns, and how far it raised the peak of resident memory, which Linux records."""
    if sys.platform != "linux":
        return work(), None
    # What an earlier runtime freed would otherwise be taken again, and not be counted.
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):
        trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    before = _resident("VmRSS")
    done = work()
    return done, max(0, _resident("VmHWM") - before)


def _compare_one(
    file: Path, onnx: Path, graph: Graph, shape: tuple[int, ...], threads: int, opponents: Sequence[Opponent]
) -> tuple[list[Row], Sequence[Mapping[str, Any]]]:
    x = np.random.default_rng(0).standard_normal(shape, np.float32)
    title = setting(len(x), threads)
    checked = np.unique(np.linspace(0, len(x) - 1, MOST_CHECKED).astype(int))
    with on_stderr().status(f"{title}: the reference"):
        reference = _reference(graph, x, checked)
    plan: list[Mapping[str, Any]] = []
    ours = Opponent(OURS, "asni", "asni.engine.engine", lambda path, x, threads: _ours(path, x, threads, plan))
    rows: dict[str, Row] = {}
    calls: dict[str, Callable[[], object]] = {}
    for each in (ours, *opponents):
        with on_stderr().status(f"{title}: loading and checking {each.name}"):
            row, run = _checked(each, file if each is ours else onnx, x, threads, checked, reference)
        rows[each.name] = row
        if run is not None:
            calls[each.name] = run
    with on_stderr().status(f"{title}: timing {', '.join(calls)}"):
        times = interleaved(calls, SECONDS)
    return _with_speed_ups([_timed(row, times.get(name)) for name, row in rows.items()]), plan


def _checked(
    each: Opponent, path: Path, x: Array, threads: int, checked: Array, reference: Array
) -> tuple[Row, Callable[[], object] | None]:
    """A row without times, and a call to time if the results are right."""
    row = Row(each.name, each.version or "", len(x), threads, "right")
    first: list[Array] = []

    def load_and_run() -> Prepared:
        prepared = each.prepare(path, x, threads)
        first.append(prepared.run(x))
        return prepared

    try:
        each.load()
        prepared, memory = peak_growth(load_and_run)
    except Exception as error:
        # A runtime may raise anything, and that it cannot run a network is a result too.
        reason = shown(f"{type(error).__name__}: {error}".splitlines()[0])
        return replace(row, state="failed", reason=reason), None
    given = first[0][checked] if len(first[0]) == len(x) else first[0]
    found = difference(given, reference)
    row = replace(row, difference=found, memory_bytes=memory, file_bytes=prepared.file_bytes)
    if found > TOLERANCE:
        return replace(row, state="wrong", reason=f"differs by {found:.2g} of the largest value"), None
    return row, lambda: prepared.run(x)


def _timed(row: Row, times: Sequence[float] | None) -> Row:
    if times is None:
        return row
    quantile, median = (1000 * float(value) for value in np.quantile(times, (0.25, 0.5)))
    return replace(row, quantile_ms=quantile, median_ms=median, items_per_second=1000 * row.batch / quantile)


def _with_speed_ups(rows: Sequence[Row]) -> list[Row]:
    ours = next(row.quantile_ms for row in rows if row.runtime == OURS)
    return [
        replace(row, speed_up=row.quantile_ms / ours) if ours and row.quantile_ms and row.runtime != OURS else row
        for row in rows
    ]


def _turn(call: Callable[[], object], clock: Callable[[], float], seconds: float) -> float:
    # The first call brings its weights back into the caches, and others' threads to rest.
    call()
    calls = 0
    started = clock()
    while (taken := clock() - started) < seconds or not calls:
        call()
        calls += 1
    return taken / calls


def _item_shape(file: Path, graph: Graph, batches: Sequence[int]) -> tuple[int, ...]:
    if len(graph.inputs) != 1 or len(graph.outputs) != 1:
        raise EngineError(
            f"{shown(file)}: {len(graph.inputs)} inputs and {len(graph.outputs)} outputs; "
            "only a network with one of each can be timed."
        )
    (shape,) = graph.inputs.values()
    if not shape or (shape[0] != BATCH and any(batch != shape[0] for batch in batches)):
        accepted = f"batches of {shape[0]}" if shape else "no batches"
        raise UsageError(f"--batch: {shown(file)} takes {accepted} alone.")
    return shape[1:]


def _reference(graph: Graph, x: Array, checked: Array) -> Array:
    from asni.engine.interpreter import run
    from asni.engine.lowering import lower

    steps = lower(graph)
    return run(steps, [x if steps.fixed_batch else x[checked]])[0]


def _ours(file: Path, example: Array, threads: int, plan: list[Mapping[str, Any]]) -> Prepared:
    from asni.engine.engine import compile

    engine = compile(file, example=example, threads=threads)
    plan += map(asdict, engine.plan)
    return Prepared(lambda x: np.asarray(engine(x)), file.stat().st_size)


@contextmanager
def _as_onnx(file: Path, graph: Graph) -> Iterator[Path]:
    """The file that the others load."""
    if file.suffix == ".onnx":
        yield file
        return
    from asni.engine.to_onnx import write_onnx

    with tempfile.TemporaryDirectory(prefix="asni-") as folder:
        path = Path(folder) / "network.onnx"
        write_onnx(graph, path)
        yield path


def _resident(key: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(f"{key}:"))

"""Runtimes take turns, and only those with right results are timed."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from asni.engine.comparing import bench
from asni.engine.comparing.bench import OURS, Row, best_other, compare, difference, graph_of, interleaved
from asni.engine.comparing.opponents import Opponent, Prepared
from asni.engine.graph import BATCH, Array, Graph
from asni.engine.interpreter import run
from asni.engine.lowering import lower
from asni.engine.to_onnx import write_onnx
from asni.errors import EngineError, UsageError
from tests.engine.graphs import graph, node


def floats(values: object) -> Array:
    return np.array(values, np.float32)


@pytest.fixture(autouse=True)
def _little_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "SECONDS", 0.0)
    monkeypatch.setattr(bench, "TURN_SECONDS", 0.0)


@pytest.fixture
def network(tmp_path: Path) -> Path:
    """A linear layer from 3 to 2 and a ReLU."""
    constants = {"w": floats([[1, 0, 2], [0, -1, 1]]), "b": floats([0.5, -0.5])}
    small = graph([node("Gemm", "x w b", "a", transB=1), node("Relu", "a", "y")], constants, x=(3,))
    write_onnx(small, tmp_path / "net.onnx")
    return tmp_path / "net.onnx"


def opponent(name: str, answer: Callable[[Array, Array], Array]) -> Opponent:
    """A runtime that makes its answer of the input and the right result."""

    def prepare(path: Path, example: Array, threads: int) -> Prepared:
        steps = lower(graph_of(path))
        return Prepared(lambda x: answer(x, run(steps, [x])[0]), 123)

    return Opponent(name, "numpy", "numpy", prepare)


def crash(x: Array, right: Array) -> Array:
    raise RuntimeError("no kernel for Relu\nat line 7")


RIGHT = opponent("right", lambda x, right: right)
ROUNDED = opponent("rounded", lambda x, right: right * np.float32(1 + 1e-5))
OTHERS = {
    "garbage": lambda x, right: np.full_like(right, 7),
    "nothing": lambda x, right: np.zeros_like(right),
    "half": lambda x, right: right * np.float32(1.005),
    "nan": lambda x, right: right * np.float32("nan"),
    "first item for all": lambda x, right: np.repeat(right[:1], len(right), axis=0),
    "last item missing": lambda x, right: right[:-1],
    "transposed": lambda x, right: np.ascontiguousarray(right.T),
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_runtime_that_returns_something_else_is_wrong_and_not_timed(network: Path, name: str) -> None:
    wrong = opponent(name, OTHERS[name])
    rows = compare(network, [5], [1], [wrong, RIGHT]).rows
    assert [row.state for row in rows] == ["right", "wrong", "right"]
    assert (rows[1].median_ms, rows[1].speed_up) == (None, None)
    assert "differs" in rows[1].reason


def test_a_runtime_that_fails_is_shown_with_the_first_line_of_its_reason(network: Path) -> None:
    row = compare(network, [2], [1], [opponent("crash", crash)]).rows[1]
    assert (row.state, row.reason) == ("failed", "RuntimeError: no kernel for Relu")


def test_every_setting_has_a_row_for_each_runtime_and_a_plan(network: Path) -> None:
    found = compare(network, [1, 3], [1, 2], [RIGHT, ROUNDED])
    assert [(row.threads, row.batch, row.runtime) for row in found.rows] == [
        (threads, batch, name) for threads in (1, 2) for batch in (1, 3) for name in (OURS, "right", "rounded")
    ]
    assert list(found.plans) == ["batch 1, 1 thread", "batch 3, 1 thread", "batch 1, 2 threads", "batch 3, 2 threads"]


def test_times_speed_and_sizes_belong_together(network: Path) -> None:
    ours, right = compare(network, [4], [1], [RIGHT]).rows
    assert ours.file_bytes == network.stat().st_size
    assert right.file_bytes == 123
    for row in (ours, right):
        assert row.quantile_ms is not None
        assert row.median_ms is not None
        assert 0 < row.quantile_ms <= row.median_ms
        assert row.items_per_second == pytest.approx(4 * 1000 / row.quantile_ms)
    assert ours.quantile_ms is not None
    assert right.quantile_ms is not None
    assert right.speed_up == pytest.approx(right.quantile_ms / ours.quantile_ms)
    assert ours.speed_up is None


def test_the_best_other_is_the_fastest_with_right_results() -> None:
    rows = [
        Row(OURS, "", 1, 1, "right", quantile_ms=1.0),
        Row("slow", "", 1, 1, "right", quantile_ms=9.0),
        Row("fast", "", 1, 1, "right", quantile_ms=2.0),
        Row("wrong", "", 1, 1, "wrong"),
    ]
    best = best_other(rows)
    assert best is not None
    assert best.runtime == "fast"
    assert best_other(rows[:1]) is None


def test_runtimes_take_turns() -> None:
    called: list[str] = []
    times = interleaved({"a": lambda: called.append("a"), "b": lambda: called.append("b")}, 0.0)
    order = [name for place, name in enumerate(called) if not place or called[place - 1] != name]
    assert order == ["a", "b"] * bench.LEAST_ROUNDS
    assert {name: len(each) for name, each in times.items()} == dict.fromkeys("ab", bench.LEAST_ROUNDS)


def test_a_difference_is_relative_to_the_largest_value() -> None:
    reference = floats([[100, 1]])
    assert difference(floats([[100, 2]]), reference) == pytest.approx(0.01)
    assert difference(floats([[np.nan, 1]]), floats([[np.nan, 1]])) == 0
    assert difference(floats([[1, 1]]), floats([[np.inf, 1]])) == float("inf")
    assert difference(floats([[np.inf, 1]]), reference) == float("inf")
    assert difference(np.zeros((1, 2), np.float32), np.zeros((1, 2), np.float32)) == 0


def test_a_network_of_one_batch_size_is_timed_at_that_alone(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    fixed = graph([node("Relu", "x", "y")], x=(3,))
    write_onnx(Graph({"x": (4, 3)}, fixed.outputs, fixed.nodes, {}), path)
    with pytest.raises(UsageError, match=r"net\.onnx takes batches of 4 alone"):
        compare(path, [1, 4], [1], [])
    assert [row.state for row in compare(path, [4], [1], [RIGHT]).rows] == ["right", "right"]


def test_a_network_of_two_inputs_is_refused(tmp_path: Path) -> None:
    write_onnx(graph([node("Add", "x z", "y")], x=(3,), z=(3,)), tmp_path / "net.onnx")
    with pytest.raises(EngineError, match="2 inputs and 1 outputs"):
        compare(tmp_path / "net.onnx", [1], [1], [])


def test_the_input_is_a_batch_of_the_shape_of_the_network(network: Path) -> None:
    seen: list[tuple[int, ...]] = []

    def look(x: Array, right: Array) -> Array:
        seen.append(x.shape)
        return right

    compare(network, [5], [1], [opponent("look", look)])
    assert set(seen) == {(5, 3)}
    assert graph_of(network).inputs == {"x": (BATCH, 3)}

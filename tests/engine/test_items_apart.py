"""Items of a batch do not touch each other: what would mix them is refused, and what is not refused is right."""

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asni.engine.fusing import fuse
from asni.engine.graph import BATCH, Graph, Node
from asni.engine.interpreter import run
from asni.engine.lowering import lower
from asni.errors import EngineError
from tests.engine.graphs import graph, node, normal, one


@pytest.mark.parametrize(
    ("op", "constants", "attributes"),
    [
        ("Softmax", (), {"axis": 0}),
        ("LayerNormalization", (np.ones((3, 4)),), {"axis": 0}),
        ("ReduceMean", (), {}),
        ("ReduceMean", (), {"axes": (0, 1)}),
        ("Slice", (), {"starts": (1,), "ends": (2,)}),
        ("Slice", (np.array([-1]), np.array([-(2**40)]), np.array([0]), np.array([-1])), {}),
        ("Gather", (np.array(0),), {"axis": 0}),
        ("Reshape", (np.array([2, -1, 3, 4]),), {}),
        ("Reshape", (np.array([3, BATCH, 4]),), {}),
        ("Reshape", (np.array([12, -1]),), {}),
        ("Flatten", (), {"axis": 3}),
        ("Transpose", (), {}),
        ("Concat", (normal(7, 3, 4),), {"axis": 0}),
        ("Add", (normal(7, 3, 4),), {}),
        ("Expand", (np.array([7, 3, 4]),), {}),
        ("Squeeze", (np.array([0]),), {}),
    ],
)
def test_what_would_mix_items_is_refused(op: str, constants: Sequence[object], attributes: Any) -> None:
    with pytest.raises(EngineError, match=rf"^({op} 'y'|output y): "):
        lower(one(op, (3, 4), *constants, **attributes))


@pytest.mark.parametrize(
    "nodes",
    [
        pytest.param([node("MatMul", "t x", "y")], id="contracted"),
        pytest.param([node("MatMul", "x t", "y")], id="pairs"),
        pytest.param([node("Unsqueeze", "x", "u", axes=(1,)), node("Add", "u x", "y")], id="sums of pairs"),
        pytest.param([node("Unsqueeze", "x", "u", axes=(0,)), node("Conv", "u w", "y")], id="channels"),
        pytest.param([node("Concat", "x x", "y", axis=0)], id="one after another"),
        pytest.param([node("Split", "x", "y z", axis=0)], id="halves"),
        pytest.param([node("Unsqueeze", "t", "u", axes=(0,)), node("GlobalMaxPool", "u", "y")], id="pooled"),
        pytest.param(
            [node("Unsqueeze", "t", "u", axes=(0,)), node("MaxPool", "u", "y", kernel_shape=(3,), pads=(1, 1))],
            id="in windows",
        ),
        pytest.param([node("Reshape", "t column", "y")], id="items inside"),
    ],
)
def test_products_and_sums_of_different_items_are_refused(nodes: list[Node]) -> None:
    constants = {"w": normal(2, 1, 1), "column": [-1, 1]}
    with pytest.raises(EngineError, match=nodes[-1].op):
        lower(graph([node("Transpose", "x", "t", perm=(1, 0)), *nodes], constants, x=(4,)))


SHAPES = st.lists(st.integers(1, 3), min_size=1, max_size=3)


def moves(draw: Any, shape: tuple[int, ...]) -> tuple[str, dict[str, Any], tuple[int, ...]]:
    """An operator that could mix items, its attributes, and the shape of its result."""
    rank = len(shape)
    op = draw(st.sampled_from(["Reshape", "Transpose", "Softmax", "ReduceMean", "Concat", "Slice", "Relu"]))
    axis = draw(st.integers(0, rank - 1))
    if op == "Reshape":
        rest, target = prod(shape), []
        for _ in range(draw(st.integers(0, 3))):
            target.append(draw(st.sampled_from([each for each in range(1, rest + 1) if rest % each == 0])))
            rest //= target[-1]
        target.insert(draw(st.integers(0, len(target))), rest)
        return op, {"shape": tuple(target)}, tuple(target)
    if op == "Transpose":
        permutation = tuple(draw(st.permutations(range(rank))))
        return op, {"perm": permutation}, tuple(shape[each] for each in permutation)
    if op == "ReduceMean":
        return op, {"axes": (axis,)}, (*shape[:axis], 1, *shape[axis + 1 :])
    if op == "Slice":
        return op, {"starts": (0,), "ends": (1,), "axes": (axis,)}, (*shape[:axis], 1, *shape[axis + 1 :])
    if op == "Concat":
        return op, {"axis": axis}, (*shape[:axis], 2 * shape[axis], *shape[axis + 1 :])
    return op, {"axis": axis} if op == "Softmax" else {}, shape


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_what_is_not_refused_gives_the_same_for_a_whole_batch(data: st.DataObject) -> None:
    """Any chain of operators, with a batch of 5, which is in no other dimension, written as it is or left open."""
    items, shape = 5, (5, *data.draw(SHAPES))
    fixed, open_, current = [], [], shape
    for index in range(data.draw(st.integers(1, 5))):
        op, attributes, current = moves(data.draw, current)
        inputs = f"v{index} v{index}" if op == "Concat" else f"v{index}"
        fixed.append(node(op, inputs, f"v{index + 1}", **attributes))
        if op == "Reshape":
            batches = tuple(each // items * BATCH if each % items == 0 else each for each in attributes["shape"])
            attributes = {"shape": batches}
        open_.append(node(op, inputs, f"v{index + 1}", **attributes))
    output = (f"v{len(fixed)}",)
    x = normal(*shape)
    try:
        steps = lower(Graph({"v0": (BATCH, *shape[1:])}, output, tuple(open_), {}))
    except EngineError:
        return
    (expected,) = run(lower(Graph({"v0": shape}, output, tuple(fixed), {})), [x])
    for each in (steps, fuse(steps)):
        np.testing.assert_allclose(run(each, [x])[0], expected, rtol=1e-5, atol=1e-6)

"""Small graphs, and running them by NumPy as they are lowered and as they are fused."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from asni.engine.fusing import fuse
from asni.engine.graph import BATCH, Array, Graph, Node
from asni.engine.interpreter import run
from asni.engine.lowering import lower
from asni.engine.steps import Step, Steps


def node(op: str, inputs: str, output: str, **attributes: Any) -> Node:
    """A node with its names separated by spaces; '-' is an absent input. Its name is that of its first output."""
    names = tuple("" if name == "-" else name for name in inputs.split())
    return Node(op, output.split()[0], names, tuple(output.split()), attributes)


def graph(
    nodes: Sequence[Node],
    constants: Mapping[str, object] | None = None,
    outputs: Sequence[str] = (),
    **inputs: tuple[int, ...],
) -> Graph:
    """A graph whose outputs are those of its last node if nothing else is said; inputs have any batch size."""
    arrays = {name: np.asarray(array) for name, array in (constants or {}).items()}
    shapes = {name: (BATCH, *shape) for name, shape in inputs.items()}
    return Graph(shapes, tuple(outputs) or nodes[-1].outputs, tuple(nodes), arrays)


def one(op: str, shape: tuple[int, ...], *constants: object, **attributes: Any) -> Graph:
    """A graph of one operator on an input x (N, *shape), and constants after it."""
    names = {f"c{index}": constant for index, constant in enumerate(constants)}
    return graph([node(op, " ".join(("x", *names)), "y", **attributes)], names, x=shape)


def calculated(network: Graph | Steps, *inputs: Array) -> Array:
    """Its first output, lowered and fused in turn, which must agree."""
    steps = lower(network) if isinstance(network, Graph) else network
    plain, fused = run(steps, inputs), run(fuse(steps), inputs)
    for one_way, other in zip(plain, fused, strict=True):
        np.testing.assert_allclose(other, one_way, rtol=1e-4, atol=1e-5)
    return fused[0]


def same(result: Array, expected: torch.Tensor) -> None:
    """Equal to what torch calculates in float64, NaN where that has NaN, and of the same shape."""
    assert result.dtype == np.float32
    assert result.shape == tuple(expected.shape)
    np.testing.assert_allclose(result, expected.numpy(), rtol=1e-5, atol=1e-5)


def kinds(steps: Steps) -> list[str]:
    """What the steps are."""
    return [step.kind for step in steps.steps]


def find(steps: Steps, kind: str) -> Step:
    """The only step of a kind."""
    (step,) = (step for step in steps.steps if step.kind == kind)
    return step


def normal(*shape: int, seed: int = 0) -> Array:
    """Random numbers in float32."""
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def double(array: Array) -> torch.Tensor:
    """A tensor in float64."""
    return torch.from_numpy(np.array(array, np.float64))

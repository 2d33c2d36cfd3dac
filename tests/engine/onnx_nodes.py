"""The node tests of the onnx package, which has its own numbers for every operator, run by the engine.

`python -m tests.engine.onnx_nodes` writes how many of them pass, for each operator that the engine claims, to
`results/engine/onnx-nodes.json`.
"""

import json
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto, numpy_helper
from onnx.backend.test.case.test_case import TestCase

from asni.engine.engine import Engine
from asni.engine.frontends.from_onnx import graph_of_model
from asni.engine.fusing import fuse
from asni.engine.graph import Array
from asni.engine.interpreter import run
from asni.engine.lowering import lower
from asni.engine.native import library
from asni.engine.steps import Steps
from asni.errors import EngineError
from asni.files import write_text

RESULTS = Path(__file__).parents[2] / "results" / "engine" / "onnx-nodes.json"
CLAIMED = (
    "Abs", "Add", "AveragePool", "BatchNormalization", "Clip", "Concat", "Conv", "Div", "Dropout", "Erf", "Exp",
    "Expand", "Flatten", "Gather", "Gelu", "Gemm", "GlobalAveragePool", "GlobalMaxPool", "HardSigmoid", "HardSwish",
    "Identity", "LayerNormalization", "LeakyRelu", "MatMul", "Max", "MaxPool", "Min", "Mul", "Neg", "Pow",
    "ReduceMean", "Relu", "Reshape", "Sigmoid", "Slice", "Softmax", "Split", "Sqrt", "Squeeze", "Sub", "Sum", "Swish",
    "Tanh", "Transpose", "Unsqueeze",
)  # fmt: skip
"""Operators on activations."""
FOR_SHAPES = ("Cast", "Constant", "ConstantOfShape", "Equal", "Range", "Shape", "Size", "Where")
"""Operators that are calculated before the network runs, on constants and on shapes."""
OWN = ("AdaptiveAveragePool", "AdaptiveMaxPool", "Silu")
"""Operators of a graph that standard ONNX does not have."""

_WITH_WEIGHTS = ("BatchNormalization", "Clip", "Conv", "Dropout", "Gemm", "LayerNormalization")
"""The tests give all inputs at run time; those after the first are constants in a network."""
_FOR_TRAINING = ("LayerNormalization",)
"""The tests ask for all outputs; those after the first are of use in training alone."""

Runner = Callable[[Steps, Sequence[Array]], Sequence[Array]]


def runner(name: str) -> Runner | None:
    """What runs the steps: NumPy, or the native core if it is there."""
    if name == "numpy":
        return run
    return _run_natively if library() is not None else None


def _run_natively(steps: Steps, inputs: Sequence[Array]) -> Sequence[Array]:
    results: Any = Engine(steps)(*inputs)
    return results if isinstance(results, tuple) else (results,)


@dataclass(frozen=True)
class Case:
    """A model of one operator, with the inputs that are no constants, and what must come out."""

    name: str
    operator: str
    model: ModelProto
    inputs: tuple[Array, ...]
    expected: tuple[Array, ...]
    rtol: float
    atol: float

    @property
    def is_float32(self) -> bool:
        """Whether it is about the one type of elements that the engine has."""
        arrays = (*self.inputs, *self.expected)
        return bool(arrays) and all(isinstance(each, np.ndarray) and each.dtype == np.float32 for each in arrays)

    def check(self, runner: Runner, any_batch: bool) -> bool:
        """Whether it is taken rather than refused; a wrong result fails. `any_batch` leaves the batch size open."""
        model = _with_any_batch(self.model) if any_batch else self.model
        try:
            results = runner(fuse(lower(graph_of_model(model))), self.inputs)
        except EngineError:
            return False
        for result, expected in zip(results, self.expected, strict=True):
            np.testing.assert_allclose(result, expected, self.rtol, self.atol, err_msg=self.name)
            assert result.shape == expected.shape
            assert result.dtype == expected.dtype
        return True


@cache
def collect() -> tuple[Case, ...]:
    """Every test of a single operator that the engine claims."""
    with warnings.catch_warnings():
        # The package calculates its expected results as it is imported, some of them infinite.
        warnings.simplefilter("ignore")
        from onnx.backend.test.case.node import collect_testcases

        tests = collect_testcases(None)
    models = [(test, test.model) for test in tests if test.model is not None and len(test.model.graph.node) == 1]
    return tuple(_case(test, model) for test, model in models if model.graph.node[0].op_type in CLAIMED)


def _case(test: TestCase, original: ModelProto) -> Case:
    ((given, expected),) = [[_arrays(values) for values in pair] for pair in test.data_sets or ()]
    model = ModelProto()
    model.CopyFrom(original)
    operator = model.graph.node[0].op_type
    inputs = []
    for index, array in enumerate(given):
        if isinstance(array, np.ndarray) and index and (array.dtype != np.float32 or operator in _WITH_WEIGHTS):
            model.graph.initializer.append(numpy_helper.from_array(array, original.graph.input[index].name))
        else:
            inputs.append(array)
    if operator in _FOR_TRAINING:
        del model.graph.output[1:]
    count = len(model.graph.output)
    return Case(test.name, operator, model, tuple(inputs), tuple(expected[:count]), test.rtol, test.atol)


def _arrays(values: Sequence[Any]) -> list[Any]:
    """Some of the tests have numbers for arrays without dimensions."""
    return [np.asarray(value) if isinstance(value, np.generic) else value for value in values]


def _with_any_batch(original: ModelProto) -> ModelProto:
    model = ModelProto()
    model.CopyFrom(original)
    for value in model.graph.input:
        if value.type.tensor_type.shape.dim:
            value.type.tensor_type.shape.dim[0].dim_param = "batch"
    return model


def count(runner: Runner, any_batch: bool) -> dict[str, dict[str, int]]:
    """How many tests in float32 there are for each operator, and how many of them pass; the rest is refused."""
    cases = [case for case in collect() if case.is_float32]
    passed = Counter(case.operator for case in cases if case.check(runner, any_batch))
    totals = Counter(case.operator for case in cases)
    return {
        operator: {"cases": total, "pass": passed[operator], "refused": total - passed[operator]}
        for operator, total in sorted(totals.items())
    }


def main() -> None:
    ways = {name: way for name in ("numpy", "native") if (way := runner(name)) is not None}
    found = {"onnx": version("onnx"), **{name: count(way, any_batch=False) for name, way in ways.items()}}
    write_text(RESULTS, json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()

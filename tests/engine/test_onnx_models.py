"""Whole ONNX models by others: those of the onnx package with the results they had in PyTorch, and new exports."""

from pathlib import Path

import numpy as np
import onnx
import onnx.backend.test
import pytest
import torch
from onnx import ModelProto, TensorProto, numpy_helper, parser, version_converter

from asni.engine.frontends.from_onnx import graph_of_model, read_onnx_graph
from asni.engine.fusing import fuse
from asni.engine.graph import BATCH, Array
from asni.engine.interpreter import run
from asni.engine.lowering import lower
from asni.errors import EngineError
from tests.engine.small_networks import IMAGE, SMALL_NETWORKS, lively

DATA = Path(onnx.backend.test.__file__).parent / "data"
MODELS = sorted(path.parent for path in DATA.glob("pytorch-*/*/model.onnx"))
REFUSED = 47
"""Of 117: three dimensions of a map, other types of elements, and operators that the engine does not have."""


def results_of(model: ModelProto, *inputs: Array) -> tuple[Array, ...]:
    return run(fuse(lower(graph_of_model(model))), inputs)


def arrays(folder: Path, kind: str) -> list[Array]:
    files = sorted((folder / "test_data_set_0").glob(f"{kind}_*.pb"))
    return [numpy_helper.to_array(TensorProto.FromString(file.read_bytes())) for file in files]


def test_models_of_pytorch_give_the_results_of_pytorch_or_are_refused() -> None:
    refused = 0
    for folder in MODELS:
        # They are of the operator set 6, which is too old.
        model = version_converter.convert_version(onnx.load(folder / "model.onnx"), 12)
        try:
            steps = fuse(lower(graph_of_model(model)))
        except EngineError:
            refused += 1
            continue
        results = run(steps, arrays(folder, "input")[: len(steps.inputs)])
        for result, expected in zip(results, arrays(folder, "output"), strict=True):
            np.testing.assert_allclose(result, expected, 1e-3, 1e-5, err_msg=folder.name)
            assert result.shape == expected.shape
    assert (len(MODELS), refused) == (117, REFUSED)


@pytest.mark.parametrize("name", ["squeezenet", "shufflenet", "resnet50", "inception_v2", "densenet121"])
def test_networks_of_the_operator_set_9_are_taken(name: str) -> None:
    graph = read_onnx_graph(DATA / "light" / f"light_{name}.onnx")
    steps = fuse(lower(graph))
    assert [steps.shapes[each] for each in steps.inputs] == [(1, 3, 224, 224)]
    assert steps.shapes[steps.outputs[0]][:2] == (1, 1000)


@pytest.mark.parametrize("axis", [None, 1, 2, 3, -1])
@pytest.mark.parametrize("opset", [11, 12, 13])
def test_softmax_means_what_it_meant_in_its_operator_set(opset: int, axis: int | None) -> None:
    attributes = "" if axis is None else f"<axis = {axis}>"
    model = parser.parse_model(
        f"""<ir_version: 7, opset_import: ["" : {opset}]>
        net (float[N, 2, 3, 4] x) => (float[N, 2, 3, 4] y) {{ y = Softmax{attributes} (x) }}"""
    )
    inputs = np.random.default_rng(0).standard_normal((2, 2, 3, 4)).astype(np.float32)
    # Written out, because the reference of ONNX has the newer meaning alone.
    first = (1 if opset < 13 else -1) if axis is None else axis
    axes = tuple(range(first % 4, 4)) if opset < 13 else first
    exponentials = np.exp(inputs)
    (result,) = results_of(model, inputs)
    np.testing.assert_allclose(result, exponentials / exponentials.sum(axes, keepdims=True), 1e-5)


def test_a_softmax_over_the_batch_of_an_old_operator_set_is_refused() -> None:
    model = parser.parse_model(
        """<ir_version: 7, opset_import: ["" : 11]>
        net (float[N, 4] x) => (float[N, 4] y) { y = Softmax<axis = 0> (x) }"""
    )
    with pytest.raises(EngineError, match="Softmax 'y': it works along the batch"):
        lower(graph_of_model(model))


def test_shapes_that_a_model_calculates_keep_the_batch_open() -> None:
    model = parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]>
        net (float[N, 2, 6] x) => (float[N, 12] y)
        <int64 zero = {0}, int64[1] front = {0}, int64[1] rest = {-1}> {
            s = Shape(x)
            n = Gather(s, zero)
            u = Unsqueeze(n, front)
            t = Concat<axis = 0> (u, rest)
            y = Reshape(x, t)
        }"""
    )
    for batch in (1, 3):
        inputs = np.arange(batch * 12, dtype=np.float32).reshape(batch, 2, 6)
        (result,) = results_of(model, inputs)
        np.testing.assert_array_equal(result, inputs.reshape(batch, 12))


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning", "ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize("name", ["basic_resnet", "mobilenet_v2", "mobilenet_v3", "own_transformer"])
def test_exports_of_torch_give_the_results_of_torch(tmp_path: Path, name: str) -> None:
    module, path, example = lively(SMALL_NETWORKS[name]()), tmp_path / "net.onnx", torch.ones(2, *IMAGE)
    torch.onnx.export(module, (example,), path, dynamo=False, input_names=["x"], dynamic_axes={"x": {0: "batch"}})
    graph = read_onnx_graph(path)
    assert graph.inputs == {"x": (BATCH, *IMAGE)}
    for batch in (1, 3):
        inputs = torch.randn(batch, *IMAGE, generator=torch.Generator().manual_seed(batch))
        (result,) = run(fuse(lower(graph)), [inputs.numpy()])
        np.testing.assert_allclose(result, module(inputs).detach().numpy(), 1e-4, 1e-5)

"""ONNX files of any tool become graphs, and files that are damaged or made to harm give one clear error."""

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import ModelProto, TensorProto, helper, numpy_helper, parser

from asni.engine.frontends.from_onnx import graph_of_model, read_onnx_graph
from asni.engine.graph import BATCH, Graph, Node
from asni.errors import EngineError

NET = """<ir_version: 9, opset_import: ["" : 20]>
net (float[N, 1, 4, 4] x) => (float[N, 2, 4, 4] y)
<float[2, 1, 1, 1] w = {1, 0}, float[2] b = {3, 4}> {
    [first] c = Conv<strides = [1, 1], auto_pad = "VALID"> (x, w, b)
    y = LeakyRelu<alpha = 0.5> (c)
}"""


def graph_of(text: str, *shapes: tuple[int, ...]) -> Graph:
    model = parser.parse_model(text)
    onnx.checker.check_model(model)
    return graph_of_model(model, shapes or None)


def graph_of_body(body: str, opset: int, inputs: str = "float[N, 4] x", constants: str = "") -> Graph:
    opsets = f'"" : {opset}, "com.microsoft" : 1, "local" : 1'
    return graph_of(f"<ir_version: 9, opset_import: [{opsets}]> net ({inputs}) => (float[N, M] y) {constants} {body}")


def saved(path: Path, model: ModelProto) -> Path:
    path.write_bytes(model.SerializeToString())
    return path


def test_a_file_becomes_its_nodes_inputs_and_constants(tmp_path: Path) -> None:
    graph = read_onnx_graph(saved(tmp_path / "net.onnx", parser.parse_model(NET)))
    assert graph.inputs == {"x": (BATCH, 1, 4, 4)}
    assert graph.outputs == ("y",)
    assert graph.nodes == (
        Node("Conv", "first", ("x", "w", "b"), ("c",), {"strides": (1, 1), "auto_pad": "VALID"}),
        Node("LeakyRelu", "y", ("c",), ("y",), {"alpha": 0.5}),
    )
    assert graph.constants["w"].tolist() == [[[[1.0]]], [[[0.0]]]]
    assert graph.constants["b"].tolist() == [3.0, 4.0]
    assert graph.constants["b"].dtype == np.float32


def test_a_fixed_first_dimension_stays() -> None:
    assert graph_of_body("{ y = Relu(x) }", 20, "float[3, 4] x").inputs == {"x": (3, 4)}


def test_other_dimensions_without_a_size_are_those_of_the_example() -> None:
    text = '<ir_version: 9, opset_import: ["" : 20]> net (float[N, L, 4] x) => (float[N, L, 4] y) { y = Relu(x) }'
    assert graph_of(text, (8, 7, 4)).inputs == {"x": (BATCH, 7, 4)}
    with pytest.raises(EngineError, match="dimension 1 of its input x has no fixed size"):
        graph_of(text)
    with pytest.raises(EngineError, match="dimension 2 of its input x is 4, and that of the example 5"):
        graph_of(text, (8, 7, 5))
    with pytest.raises(EngineError, match="its input x has 3 dimensions, and the example 2"):
        graph_of(text, (8, 7))
    with pytest.raises(EngineError, match=r"it has 1 inputs \(x\), and the example 2"):
        graph_of(text, (8, 7, 4), (8, 7, 4))


def test_an_input_without_a_shape_takes_that_of_the_example() -> None:
    value = onnx.ValueInfoProto(name="x")
    value.type.tensor_type.elem_type = TensorProto.FLOAT
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "net", [value], [])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    assert graph_of_model(model, [(8, 7)]).inputs == {"x": (BATCH, 7)}
    with pytest.raises(EngineError, match="its input x has no shape"):
        graph_of_model(model)


@pytest.mark.parametrize("kind", ["int64", "float16", "double"])
def test_inputs_must_be_float32(kind: str) -> None:
    with pytest.raises(EngineError, match=f"(?i)its input x is {kind}; inputs must be float32"):
        graph_of_body("{ y = Identity(x) }", 20, f"{kind}[N, 4] x")


def test_an_initialiser_that_is_also_an_input_is_a_constant() -> None:
    graph = graph_of_body("{ y = Add(x, b) }", 9, "float[N, 4] x, float[4] b", "<float[4] b = {1, 2, 3, 4}>")
    assert list(graph.inputs) == ["x"]
    assert graph.constants["b"].tolist() == [1, 2, 3, 4]


def test_constant_nodes_are_constants() -> None:
    graph = graph_of_body(
        """{
        a = Constant<value = float[2] {1, 2}> ()
        b = Constant<value_int = 3> ()
        c = Constant<value_ints = [4, 5]> ()
        d = Constant<value_float = 6.0> ()
        e = Constant<value_floats = [7.0]> ()
        y = Relu(x)
    }""",
        20,
    )
    assert {name: array.tolist() for name, array in graph.constants.items()} == {
        "a": [1, 2], "b": 3, "c": [4, 5], "d": 6, "e": [7]
    }  # fmt: skip
    assert [graph.constants[name].dtype.name for name in "abcde"] == ["float32", "int64", "int64", "float32", "float32"]
    assert [node.op for node in graph.nodes] == ["Relu"]
    with pytest.raises(EngineError, match="Constant 's': texts"):
        graph_of_body('{ s = Constant<value_string = "one"> () y = Relu(x) }', 20)


def test_a_filled_tensor_is_an_expanded_number() -> None:
    graph = graph_of_body(
        "{ f = ConstantOfShape<value = float[1] {3.0}> (s) y = Add(x, f) }", 20, constants="<int64[1] s = {4}>"
    )
    assert graph.nodes[0].op == "Expand"
    number, shape = graph.nodes[0].inputs
    assert (graph.constants[number].tolist(), shape) == (3.0, "s")


def test_numbers_that_became_inputs_stay_attributes() -> None:
    graph = graph_of_body("{ u = Unsqueeze<axes = [1]> (x) y = Squeeze<axes = [1]> (u) }", 11)
    assert [node.attributes for node in graph.nodes] == [{"axes": (1,)}, {"axes": (1,)}]


@pytest.mark.parametrize(
    ("body", "opset", "message"),
    [
        ("{ y, mask = Dropout(x) z = Not(mask) }", 12, "Dropout 'y': its output mask is used"),
        ("{ y = Dropout(x, r, t) }", 12, "Dropout 'y': it drops values at random"),
        ("{ y, a, b = BatchNormalization<training_mode = 1> (x, v, v, v, v) }", 15, "BatchNormalization 'y': it takes"),
        ("{ y = BatchNormalization<spatial = 0> (x, v, v, v, v) }", 7, "BatchNormalization 'y': spatial=0"),
        ("{ c = Cast<to = 9> (x) y = If(t) <then_branch = g () => (float[M] a) { a = Identity(v) }, "
         "else_branch = h () => (float[M] a) { a = Identity(v) }> }", 20, "If 'y': graphs within a graph"),
        ("{ y = com.microsoft.FusedGemm(x, v) }", 20, r"com\.microsoft\.FusedGemm 'y': this operator is not one of"),
        ("{ y = local.unheard(x) }", 20, r"local\.unheard 'y'"),
        ("{ y = Add(x, x) }", 6, "operator set 6; the sets 7 to"),
    ],
)  # fmt: skip
def test_what_is_not_supported_is_refused_by_name(body: str, opset: int, message: str) -> None:
    model = parser.parse_model(
        f"""<ir_version: 9, opset_import: ["" : {opset}, "com.microsoft" : 1, "local" : 1]>
        net (float[N, 4] x) => (float[N, 4] y)
        <float r = {{0.5}}, bool t = {{1}}, float[4] v = {{1, 1, 1, 1}}> {body}"""
    )
    with pytest.raises(EngineError, match=message):
        graph_of_model(model)


def test_dropout_in_evaluation_mode_is_taken_with_its_unused_mask() -> None:
    graph = graph_of_body("{ y, mask = Dropout(x, r, t) }", 12, constants="<float r = {0.5}, bool t = {0}>")
    assert graph.nodes == (Node("Dropout", "y", ("x",), ("y",)),)


def test_gelu_of_microsoft_is_gelu() -> None:
    assert graph_of_body("{ y = com.microsoft.Gelu(x) }", 17).nodes == (Node("Gelu", "y", ("x",), ("y",)),)


def test_calls_of_functions_are_replaced_by_their_nodes() -> None:
    graph = graph_of_body(
        """{ y = local.twice(x) }
        <domain: "local", opset_import: ["" : 20]> twice (a) => (b) { c = Relu(a) b = Add(c, c) }""",
        20,
    )
    assert [node.op for node in graph.nodes] == ["Relu", "Add"]


def test_functions_that_ask_for_endless_nodes_are_refused() -> None:
    doubling = "".join(
        f'<domain: "local", opset_import: ["" : 20, "local" : 1]> f{level} (a) => (c) '
        f"{{ b = local.f{level + 1}(a) c = local.f{level + 1}(b) }}"
        for level in range(40)
    )
    last = '<domain: "local", opset_import: ["" : 20]> f40 (a) => (b) { b = Relu(a) }'
    endless = '<domain: "local", opset_import: ["" : 20, "local" : 1]> f0 (a) => (b) { b = local.f0(a) }'
    for functions in (doubling + last, endless):
        with pytest.raises(EngineError, match="its functions call each other so often"):
            graph_of_model(
                parser.parse_model(
                    '<ir_version: 9, opset_import: ["" : 20, "local" : 1]> net (float[N, 4] x) => (float[N, 4] y) '
                    "{ y = local.f0(x) }" + functions
                )
            )


def sparse_model(shape: tuple[int, ...], indices: list[int] | list[list[int]]) -> ModelProto:
    values = numpy_helper.from_array(np.array([5, 7], np.float32), "w")
    sparse = helper.make_sparse_tensor(values, numpy_helper.from_array(np.array(indices), "i"), shape)
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 3])]
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["y"])], "net", inputs, outputs, sparse_initializer=[sparse]
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


@pytest.mark.parametrize("indices", [[1, 5], [[0, 1], [1, 2]]])
def test_sparse_initialisers_become_dense(tmp_path: Path, indices: list[int] | list[list[int]]) -> None:
    graph = read_onnx_graph(saved(tmp_path / "net.onnx", sparse_model((2, 3), indices)))
    assert graph.constants["w"].tolist() == [[0, 5, 0], [0, 0, 7]]


def test_a_small_file_cannot_ask_for_all_memory(tmp_path: Path) -> None:
    path = saved(tmp_path / "net.onnx", sparse_model((10**6, 10**6), [1, 5]))
    with pytest.raises(EngineError, match=r"net\.onnx: reading it may take [\d,]+ MB of memory"):
        read_onnx_graph(path)


def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved(tmp_path / "net.onnx", parser.parse_model(NET))
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(EngineError, match=r"pip install 'asni\[onnx\]'"):
        read_onnx_graph(path)


@pytest.mark.parametrize("kind", ["missing", "folder", "empty", "text", "fifo"])
def test_what_is_not_an_onnx_file_is_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "net.onnx"
    if kind == "folder":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind != "missing":
        path.write_text("not a model" if kind == "text" else "")
    with pytest.raises(EngineError, match=r"net\.onnx: "):
        read_onnx_graph(path)


def test_a_truncated_file_is_refused_wherever_it_ends(tmp_path: Path) -> None:
    whole, path = parser.parse_model(NET).SerializeToString(), tmp_path / "net.onnx"
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(EngineError, match=r"net\.onnx: "):
            read_onnx_graph(path)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=4))
def test_a_damaged_file_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, bytes_: list[tuple[int, int]]
) -> None:
    content = bytearray(parser.parse_model(NET).SerializeToString())
    for place, byte in bytes_:
        content[place % len(content)] = byte
    path = tmp_path_factory.getbasetemp() / "damaged.onnx"
    path.write_bytes(content)
    with suppress(EngineError):
        graph = read_onnx_graph(path)
        made = {name for node in graph.nodes for name in node.outputs}
        assert set(graph.outputs) <= made | set(graph.inputs) | set(graph.constants)


def external_model(location: str, in_a_node: bool = False, offset: str = "0", length: str = "16") -> ModelProto:
    tensor = TensorProto(name="w", dims=[4], data_type=TensorProto.FLOAT, data_location=TensorProto.EXTERNAL)
    for key, value in {"location": location, "offset": offset, "length": length}.items():
        tensor.external_data.add(key=key, value=value)
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 4])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 4])]
    nodes = [helper.make_node("Add", ["x", "w"], ["y"])]
    if in_a_node:
        nodes.insert(0, helper.make_node("Constant", [], ["w"], value=tensor))
    graph = helper.make_graph(nodes, "net", inputs, outputs, [] if in_a_node else [tensor])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


@pytest.mark.parametrize("in_a_node", [False, True])
def test_values_in_another_file_of_the_folder_are_read(tmp_path: Path, in_a_node: bool) -> None:
    (tmp_path / "values.bin").write_bytes(b"skip" + np.arange(4, dtype=np.float32).tobytes())
    model = external_model("values.bin", in_a_node, offset="4")
    assert read_onnx_graph(saved(tmp_path / "net.onnx", model)).constants["w"].tolist() == [0, 1, 2, 3]


def up(folder: Path) -> str:
    return "../secret.bin"


def absolute(folder: Path) -> str:
    return str(folder.parent / "secret.bin")


def link(folder: Path) -> str:
    (folder / "values.bin").symlink_to("../secret.bin")
    return "values.bin"


def linked_folder(folder: Path) -> str:
    (folder / "more").symlink_to("..")
    return "more/secret.bin"


@pytest.mark.parametrize("trick", [up, absolute, link, linked_folder])
@pytest.mark.parametrize("in_a_node", [False, True])
def test_values_outside_of_the_folder_are_not_read(
    tmp_path: Path, trick: Callable[[Path], str], in_a_node: bool
) -> None:
    (tmp_path / "secret.bin").write_bytes(bytes(16))
    (tmp_path / "folder").mkdir()
    path = saved(tmp_path / "folder" / "net.onnx", external_model(trick(tmp_path / "folder"), in_a_node))
    with pytest.raises(EngineError, match=r"net\.onnx: it names the file .*, which is outside of its folder"):
        read_onnx_graph(path)


@pytest.mark.parametrize("kind", ["missing", "fifo", "short", "far", "negative", "null", "endless"])
def test_values_in_another_file_are_read_within_bounds(tmp_path: Path, kind: str) -> None:
    values = tmp_path / "values.bin"
    if kind == "fifo":
        os.mkfifo(values)
    elif kind != "missing":
        values.write_bytes(bytes(16 if kind != "short" else 15))
    location = "values.bin" if kind != "null" else "values\0.bin"
    offset = {"far": "8", "negative": "-8"}.get(kind, "0")
    length = str(10**15) if kind == "endless" else "16"
    path = saved(tmp_path / "net.onnx", external_model(location, offset=offset, length=length))
    with pytest.raises(EngineError, match=r"net\.onnx: "):
        read_onnx_graph(path)

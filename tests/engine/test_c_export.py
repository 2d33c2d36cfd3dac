"""A network as one C file: what it computes, on which machines, and in how many bytes."""

import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from math import prod
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asni.engine import interpreter
from asni.engine.c_export import Precision, write_c
from asni.engine.c_export.arena import arranged
from asni.engine.c_export.weights import with_rounded_weights
from asni.engine.steps import Activation, Function, Kind, Step, Steps
from asni.errors import AsniError, EngineError, UsageError
from tests.engine.c_networks import Array, Builder, networks
from tests.engine.c_programs import CORTEX, NATIVE, STRICT, TARGETS, Target, build, build_for_cortex, outputs, run

PRECISIONS: tuple[Precision, ...] = ("exact", "half", "int8")
BINARY = ("add", "sub", "mul", "div", "pow", "max", "min")


def inputs_of(steps: Steps) -> list[Array]:
    random = np.random.default_rng(0)
    return [random.standard_normal(steps.shapes[name]).astype(np.float32) for name in steps.inputs]


def assert_same(found: tuple[int, list[Array]], steps: Steps, given: list[Array]) -> None:
    """Within 1e-5 of what NumPy computes, relative to the largest output."""
    status, arrays = found
    assert status == 0
    for array, expected in zip(arrays, interpreter.run(steps, given), strict=True):
        np.testing.assert_allclose(array, expected, rtol=1e-5, atol=1e-5 * max(1.0, float(np.abs(expected).max())))


def exported(folder: Path, every: list[Steps], precision: Precision = "exact", *, dense: bool = False) -> list[Steps]:
    """Write net0, net1, ...; returns the steps with the weights as they were rounded."""
    for index, steps in enumerate(every):
        write_c(steps, folder, f"net{index}", precision=precision, dense=dense)
    return [with_rounded_weights(steps, precision) for steps in every]


def unary(function: Function) -> Steps:
    builder = Builder((1, 40))
    x = builder.unary("in0", Activation("abs")) if function == "sqrt" else "in0"
    return builder.done(builder.unary(x, Activation(function, 0.2, 0.5)))


def binary(function: str) -> Steps:
    """Of two values, the second broadcast, and of a constant and a value."""
    builder = Builder((1, 3, 4), (1, 1, 4))
    a, b = (builder.unary(name, Activation("sigmoid")) for name in ("in0", "in1"))
    x = builder.combine(function, a, b)
    y = builder.add("binary", (a,), (1, 3, 4), {"function": function}, {"a": np.array([[2], [3], [4]], np.float32)})
    return builder.done(x, y)


def attention() -> Steps:
    """Two heads: transposes, products with and without broadcasting, softmax, a mean and a normalisation."""
    builder = Builder((1, 5, 8))
    heads = []
    for axes in ((0, 2, 1, 3), (0, 2, 3, 1)):
        split = builder.add("reshape", (builder.linear("in0", 8, 0.3),), (1, 5, 2, 4))
        shape = tuple((1, 5, 2, 4)[axis] for axis in axes)
        heads.append(builder.add("transpose", (split,), shape, {"permutation": axes}))
    scores = builder.add("matmul", heads, (1, 2, 5, 5))
    weights = builder.add("softmax", (scores,), (1, 2, 5, 5), {"axis": 3})
    shared = builder.add("constant", (), (5, 3), {}, {"value": builder.numbers(5, 3)})
    mixed = builder.add("matmul", (weights, shared), (1, 2, 5, 3))
    mean = builder.add("mean", (mixed,), (1, 5), {"axes": (1, 3)})
    return builder.done(builder.layer_norm(mean, 1, 1e-5), weights)


def pictures() -> Steps:
    """Convolutions of every form, pools, and what joins, cuts and repeats them; a batch of two at once."""
    builder = Builder((2, 4, 9, 8))
    builder.conv("in0", 6, (3, 2), 0.2, stride=(2, 1), pads=(1, 0, 2, 1), groups=2, activation=Activation("relu"))
    builder.pool("v0", "max", (2, 3), stride=(1, 2), dilation=(2, 1), pads=(0, 1, 1, 0))
    builder.pool("v0", "average", (3, 2), stride=(2, 2), pads=(1, 1, 0, 1), include=True)
    builder.pool("v0", "average", (3, 2), pads=(1, 1, 0, 1))
    for x, mode in (("v1", "max"), ("v3", "average")):
        builder.add("adaptive_pool", (x,), (2, 6, 3, 2), {"mode": mode})
    joined = builder.add("concat", ("v4", "v5"), (2, 12, 3, 2), {"axis": 1})
    cut = builder.add("slice", (joined,), (2, 4, 3, 2), {"axis": 1, "start": 10, "step": -3})
    row = builder.add("mean", (cut,), (2, 4, 1, 2), {"axes": (2,)})
    again = builder.add("expand", (row,), (2, 4, 3, 2))
    return replace(builder.done(builder.combine("add", again, cut), "v2"), fixed_batch=2)


def one_of_each() -> list[Steps]:
    functions = get_args(Function)
    return [*map(unary, functions), *map(binary, BINARY), attention(), pictures()]


@pytest.mark.parametrize("target", [NATIVE, TARGETS["arm"], TARGETS["aarch64"]], ids=["native", "arm", "aarch64"])
def test_every_kind_and_every_function_gives_what_numpy_gives(target: Target, tmp_path: Path) -> None:
    if target.missing:
        pytest.skip(target.missing)
    every = one_of_each()
    assert {step.kind for steps in every for step in steps.steps} == set(get_args(Kind))
    given = [inputs_of(steps) for steps in every]
    exported(tmp_path, every)
    for steps, own, found in zip(every, given, outputs(tmp_path, every, given, target), strict=True):
        assert_same(found, steps, own)


@settings(max_examples=8, deadline=None)
@given(st.lists(networks(), min_size=1, max_size=12), st.sampled_from(PRECISIONS), st.booleans())
def test_any_network_gives_what_numpy_gives_and_stays_in_its_memory(
    every: list[Steps], precision: Precision, dense: bool
) -> None:
    given = [inputs_of(steps) for steps in every]
    with TemporaryDirectory() as folder:
        rounded = exported(Path(folder), every, precision, dense=dense)
        for steps, own, found in zip(rounded, given, outputs(Path(folder), every, given), strict=True):
            assert_same(found, steps, own)


@given(networks())
@settings(max_examples=300, deadline=None)
def test_values_that_are_needed_at_the_same_time_do_not_overlap(steps: Steps) -> None:
    """Whoever writes to memory must not destroy what a later step reads."""
    names = tuple(f"out{i}" for i in range(len(steps.outputs)))
    tables = {step.output: step.output for step in steps.steps if step.kind == "constant"}
    arena = arranged(steps, {name: name for name in steps.inputs}, names, tables)
    holds: dict[tuple[str, int], str] = {}

    def origin(value: str) -> str:
        made_by = {step.output: step for step in steps.steps}
        while value in made_by and made_by[value].kind == "reshape":
            value = made_by[value].inputs[0]
        return value

    def cells(value: str) -> list[tuple[str, int]]:
        base, _, offset = arena.places[value].partition(" + ")
        found = [(base, int(offset or 0) + i) for i in range(prod(steps.shapes[value]))]
        assert base != "scratch" or found[-1][1] < arena.floats
        return found

    for name in (*steps.inputs, *tables):
        holds |= dict.fromkeys(cells(name), name)
    for step in steps.steps:
        assert all(holds[cell] == origin(value) for value in step.inputs for cell in cells(value))
        holds |= dict.fromkeys(cells(step.output), origin(step.output))
    assert all(holds[cell] == origin(value) for value in steps.outputs for cell in cells(value))


def test_a_chain_of_layers_takes_two_buffers(tmp_path: Path) -> None:
    builder = Builder((1, 100))
    x = "in0"
    for outputs_of_layer in (30, 20, 30, 20, 10):
        x = builder.unary(builder.linear(x, outputs_of_layer, 0.1), Activation("relu"))
    assert write_c(builder.done(x), tmp_path, "net").scratch_bytes == 4 * (30 + 20)


def lenet(nonzeros: int = 8335) -> Steps:
    """LeNet-300-100 with the largest of Kaiming-normal weights."""
    builder, x = Builder((1, 784)), "in0"
    for size in (300, 100, 10):
        x = builder.linear(x, size, 1.0, activation=Activation("relu") if size > 10 else None)
    weights = [np.abs(step.constants["weight"]).reshape(-1) for step in builder.steps]
    least = np.sort(np.concatenate(weights))[-nonzeros]
    builder.steps[:] = [replace(step, constants=_pruned(step, least)) for step in builder.steps]
    return builder.done(x)


def _pruned(step: Step, least: float) -> dict[str, Array]:
    weight = step.constants["weight"]
    return {**step.constants, "weight": np.where(np.abs(weight) >= least, weight, 0)}


def test_lenet_takes_less_than_40_kb_in_8_bits(tmp_path: Path) -> None:
    sizes = {precision: write_c(lenet(), tmp_path, "net", precision=precision).table_bytes for precision in PRECISIONS}
    assert sizes["int8"] < sizes["half"] < 40_000 < sizes["exact"] < 50_000
    header = (tmp_path / "net.h").read_text()
    assert f"{sizes['int8']:,} bytes" in header
    assert "8,335 of 266,200 weights" in header


def test_zeros_are_stored_where_leaving_them_out_takes_more(tmp_path: Path) -> None:
    def form(density: float, precision: Precision) -> str:
        builder = Builder((1, 200))
        steps = builder.done(builder.linear("in0", 100, density))
        source = write_c(steps, tmp_path, "net", precision=precision).source.read_text()
        return ", ".join(re.findall(r"^    (\w+)_linear", source, re.MULTILINE))

    # A weight takes 4, 2 or 1 bytes, and one more for the zeros before it.
    assert [form(0.4, precision) for precision in PRECISIONS] == ["sparse", "sparse", "sparse"]
    assert [form(0.6, precision) for precision in PRECISIONS] == ["sparse", "sparse", "dense"]
    assert [form(0.75, precision) for precision in PRECISIONS] == ["sparse", "dense", "dense"]
    assert [form(0.9, precision) for precision in PRECISIONS] == ["dense", "dense", "dense"]


@pytest.mark.parametrize("gap", [0, 254, 255, 256, 257, 511, 512, 1000])
def test_long_gaps_between_weights(gap: int, tmp_path: Path) -> None:
    builder = Builder((1, 1100))
    steps = builder.done(builder.linear("in0", 3, 0.0))
    weight = steps.steps[0].constants["weight"]
    weight[0, 5], weight[0, 6 + gap], weight[2, gap] = 1, 2, 3
    write_c(steps, tmp_path, "net0")
    given = inputs_of(steps)
    ((status, (found,)),) = outputs(tmp_path, [steps], [given], Target(("cc", "-O0")))
    x, bias = given[0][0], steps.steps[0].constants["bias"]
    assert status == 0
    np.testing.assert_allclose(found[0] - bias, [x[5] + 2 * x[6 + gap], 0, 3 * x[gap]], atol=1e-6)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_nan_and_infinity_are_refused_where_zeros_are_not_stored(bad: float, tmp_path: Path) -> None:
    """Infinity times a zero weight would be NaN: a caller is told, and never gets another number."""
    layers: tuple[Callable[[Builder], str], ...] = (
        lambda builder: builder.linear("in0", 10, 0.1),
        lambda builder: builder.conv("in0", 4, (2, 2), 0.1),
        lambda builder: builder.conv("in0", 4, (2, 2), 0.9),
    )
    networks = [builder.done(layer(builder)) for layer in layers for builder in [Builder((1, 2, 4, 5))]]
    given = inputs_of(networks[0])
    given[0][0, 1, 2, 3] = bad
    found = {}
    for dense in (False, True):
        exported(tmp_path, networks, dense=dense)
        found[dense] = outputs(tmp_path, networks, [given] * 3, NATIVE)
    assert [status for status, _ in found[False]] == [1, 1, 1]
    for steps, (status, (array,)) in zip(networks, found[True], strict=True):
        assert status == 0
        np.testing.assert_array_equal(np.isnan(array), np.isnan(interpreter.run(steps, given)[0]))


def small() -> Steps:
    """A network with a bit of everything that fits on a microcontroller."""
    builder = Builder((1, 2, 8, 8))
    x = builder.conv("in0", 6, (3, 3), 0.3, pads=(1, 1, 1, 1), activation=Activation("relu"))
    x = builder.pool(x, "max", (2, 2), stride=(2, 2))
    x = builder.linear(builder.add("reshape", (x,), (1, 96)), 10, 0.1, activation=Activation("gelu"))
    return builder.done(builder.add("softmax", (x,), (1, 10), {"axis": 1}))


@pytest.mark.parametrize("name", TARGETS)
def test_the_check_in_the_file_passes_on_every_machine(name: str, tmp_path: Path) -> None:
    target = TARGETS[name]
    if target.missing:
        pytest.skip(target.missing)
    for precision in PRECISIONS:
        source = write_c(small(), tmp_path, "net", precision=precision).source
        build(target, [source], tmp_path / "program", "-DNET_TEST")
        done = run(target, tmp_path / "program")
        assert (done.returncode, done.stdout[:4]) == (0, b"PASS"), done.stdout


def test_the_check_in_the_file_passes_on_a_cortex_m4(tmp_path: Path) -> None:
    if CORTEX.missing:
        pytest.skip(CORTEX.missing)
    for precision in PRECISIONS:
        source = write_c(small(), tmp_path, "net", precision=precision).source
        build_for_cortex([source], tmp_path / "program.elf", "-DNET_TEST")
        done = run(CORTEX, tmp_path / "program.elf")
        assert (done.returncode, done.stdout[:4]) == (0, b"PASS"), done.stdout


def test_the_check_in_the_file_fails_if_a_weight_is_another(tmp_path: Path) -> None:
    for example in (None, inputs_of(small())):
        source = write_c(small(), tmp_path, "net", precision="int8", example=example).source
        text = source.read_text()
        first = re.search(r"_weights\[\d+\] = \{\n    (-?\d+),", text)
        assert first is not None
        build(NATIVE, [source], tmp_path / "program", "-DNET_TEST")
        assert run(NATIVE, tmp_path / "program").returncode == 0
        source.write_text(text[: first.start(1)] + str(-int(first[1])) + text[first.end(1) :])
        build(NATIVE, [source], tmp_path / "program", "-DNET_TEST")
        done = run(NATIVE, tmp_path / "program")
        assert (done.returncode, done.stdout[:4]) == (1, b"FAIL")


def test_a_network_without_functions_of_mathematics_needs_no_library(tmp_path: Path) -> None:
    builder = Builder((1, 20))
    steps = builder.done(builder.linear("in0", 10, 0.3, activation=Activation("relu")))
    source = write_c(steps, tmp_path, "net").source
    assert not re.search(r"\b(?:\w+f|malloc|memcpy)\(", source.read_text().partition("#ifdef NET_TEST")[0])
    assert "No library is needed" in (tmp_path / "net.h").read_text()
    write_c(small(), tmp_path, "net")
    assert "Link with -lm" in (tmp_path / "net.h").read_text()


def test_a_header_can_be_read_by_c_plus_plus(tmp_path: Path) -> None:
    write_c(small(), tmp_path, "net")
    (tmp_path / "program.cpp").write_text('#include "net.h"\nint main() { return NET_INPUT_FLOATS != 128; }\n')
    if not shutil.which("c++"):
        pytest.skip("c++ not installed")
    strict = [option for option in STRICT if option != "-std=c99"]
    subprocess.run(["c++", *strict, "-fsyntax-only", str(tmp_path / "program.cpp")], check=True)


def test_names_from_a_file_cannot_leave_their_comment(tmp_path: Path) -> None:
    steps = small()
    evil = replace(steps.steps[0], name="*/ #error \\\n ??/ /* \u202e" + "x" * 1000)
    source = write_c(replace(steps, steps=(evil, *steps.steps[1:])), tmp_path, "net").source
    build(NATIVE, [source], tmp_path / "program", "-DNET_TEST")
    assert max(map(len, source.read_text().splitlines())) < 300


def _with_weight(value: float) -> Steps:
    steps = small()
    steps.steps[0].constants["weight"][0, 0, 0, 0] = value
    return steps


def _with_kind() -> Steps:
    steps = small()
    return replace(steps, steps=(replace(steps.steps[0], kind="sort"), *steps.steps[1:]))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("steps", "precision", "name", "error", "message"),
    [
        (lambda: _with_weight(np.nan), "exact", "net", EngineError, "conv conv_0: its weights hold NaN"),
        (lambda: _with_weight(np.inf), "int8", "net", EngineError, "conv conv_0: its weights hold NaN or inf"),
        (lambda: _with_weight(1e6), "half", "net", EngineError, "conv_0: its weights are beyond .* Use exact or int8"),
        (_with_kind, "exact", "net", EngineError, "sort conv_0: there is no C for this kind"),
        (lambda: Builder((1, 0)).done("in0"), "exact", "net", EngineError, r"in0 has the shape \(1, 0\)"),
        (small, "exact", "1 net", UsageError, "1 net is not the beginning of a name in C"),
    ],
)
def test_what_cannot_be_exported_is_refused_by_name(
    steps: Callable[[], Steps], precision: Precision, name: str, error: type[AsniError], message: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=message):
        write_c(steps(), tmp_path, name, precision=precision)
    assert list(tmp_path.iterdir()) == []


def test_a_file_of_somebody_else_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "net.h").write_text("int precious;\n")
    with pytest.raises(UsageError, match="not a file that `asni export` wrote"):
        write_c(small(), tmp_path, "net")
    assert (tmp_path / "net.h").read_text() == "int precious;\n"
    assert not (tmp_path / "net.c").exists()
    write_c(small(), tmp_path, "other")
    write_c(small(), tmp_path, "other", precision="half")
    assert "half precision" in (tmp_path / "other.h").read_text()

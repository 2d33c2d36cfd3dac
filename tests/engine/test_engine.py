"""An engine takes and gives arrays as the model would, for any batch, from any thread, and keeps its plan in a file."""

import copy
import json
import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import asni
from asni.engine import native
from asni.engine.engine import Engine
from asni.engine.fusing import fuse
from asni.engine.graph import Graph
from asni.engine.interpreter import run as interpreted
from asni.engine.lowering import lower
from asni.engine.parts import cut_in_two
from asni.engine.steps import Steps
from tests.engine.graphs import graph, node, normal
from tests.engine.native_programs import ISAS
from tests.engine.small_networks import IMAGE, SMALL_NETWORKS

HAS_CORE = pytest.mark.skipif(not ISAS, reason="there is no native core")
BATCHES = (1, 3, 16, 64, 100)


def sparse(module: nn.Module, density: float = 0.1) -> nn.Module:
    """Zeros in all weights but these, some of them negative zeros, as a product with a mask gives."""
    draw = torch.Generator().manual_seed(0)
    for weight in module.parameters():
        if weight.ndim > 1:
            weight.data *= torch.rand(weight.shape, generator=draw) < density
    return module.eval()


def small_network() -> nn.Module:
    torch.manual_seed(0)
    return sparse(
        nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 20, 3, padding=1), nn.ReLU(),
            nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(80, 9),
        ),
        0.2,
    )  # fmt: skip


@pytest.fixture(scope="module")
def network() -> nn.Module:
    return small_network()


@pytest.fixture(scope="module")
def engine(network: nn.Module) -> Engine:
    return asni.compile(network, example=torch.zeros(1, 3, 12, 12))


@pytest.fixture(scope="module")
def file(network: nn.Module, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("packed") / "net.asni"
    asni.pack(network, path, example=images(1))
    return path


@pytest.fixture
def packed(file: Path, tmp_path: Path) -> Path:
    """A packed file without a plan beside it."""
    return Path(shutil.copy(file, tmp_path))


def images(items: int) -> torch.Tensor:
    return torch.from_numpy(normal(items, 3, 12, 12))


def same(result: Any, expected: torch.Tensor) -> None:
    assert tuple(result.shape) == tuple(expected.shape)
    np.testing.assert_allclose(np.asarray(result), expected.detach().numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("items", BATCHES)
def test_arrays_come_out_as_they_went_in(engine: Engine, network: nn.Module, items: int) -> None:
    x = images(items)
    for given, kind in ((x, torch.Tensor), (x.numpy(), np.ndarray)):
        result = engine(given)
        assert type(result) is kind
        same(result, network(x))


def test_a_batch_of_nothing_gives_nothing(engine: Engine) -> None:
    assert tuple(engine(images(0)).shape) == (0, 9)
    assert engine(images(0).numpy()).shape == (0, 9)


@pytest.mark.parametrize(
    "changed",
    [
        lambda x: x.transpose(2, 3).contiguous().transpose(2, 3),
        lambda x: torch.cat([x, x], 3)[..., :12],
        lambda x: x.flip(0).flip(0)[::1],
        lambda x: x.numpy()[:, :, ::-1][:, :, ::-1],
        lambda x: np.asfortranarray(x.numpy()),
        lambda x: x.clone().requires_grad_(),
    ],
)
def test_arrays_may_lie_in_memory_as_they_like(
    engine: Engine, network: nn.Module, changed: Callable[[torch.Tensor], Any]
) -> None:
    x = images(3)
    same(engine(changed(x)), network(x))


def test_an_array_that_must_not_be_written_to_is_read(engine: Engine, network: nn.Module) -> None:
    x = images(3).numpy()
    x.flags.writeable = False
    same(engine(x), network(torch.from_numpy(x.copy())))


def test_results_are_the_users_own(engine: Engine) -> None:
    x = images(2)
    first = engine(x)
    kept = first.clone()
    engine(x + 1)
    assert torch.equal(first, kept)


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ([], "has 1 inputs, and 0 are given"),
        ([torch.zeros(1, 3, 12, 12)] * 2, "has 1 inputs, and 2 are given"),
        ([torch.zeros(3, 12, 12)], r"the shape \(3, 12, 12\); expected \('N', 3, 12, 12\)"),
        ([torch.zeros(1, 3, 12, 13)], "the shape"),
        ([torch.zeros(1, 3, 12, 12, dtype=torch.float64)], "is a Tensor of torch.float64; the engine takes .* float32"),
        ([torch.zeros(1, 3, 12, 12, dtype=torch.bfloat16)], "is a Tensor of torch.bfloat16"),
        ([np.zeros((1, 3, 12, 12), np.int64)], "is a ndarray of int64"),
        ([np.zeros((1, 3, 12, 12), ">f4")], "is a ndarray of >f4"),
        ([[0.0] * 5], "is a list"),
        ([None], "is a NoneType"),
    ],
)
def test_what_does_not_fit_is_refused(engine: Engine, inputs: list[Any], said: str) -> None:
    with pytest.raises(asni.EngineError, match=said):
        engine(*inputs)


@pytest.mark.parametrize("name", SMALL_NETWORKS)
@pytest.mark.parametrize("density", [0.1, 1.0])
def test_networks_of_the_usual_kinds(name: str, density: float) -> None:
    network = SMALL_NETWORKS[name]()
    network = sparse(network, density) if density < 1 else network
    compiled = asni.compile(network, example=torch.zeros(1, *IMAGE), threads=2)
    for items in (1, 5, 33):
        x = torch.from_numpy(normal(items, *IMAGE, seed=items))
        with torch.no_grad():
            expected = copy.deepcopy(network).double()(x.double())
        np.testing.assert_allclose(compiled(x), expected, rtol=0, atol=1e-5 * max(1.0, float(expected.abs().max())))


# Not numbers


def dead_inputs(outputs: int, inputs: int) -> torch.Tensor:
    """Weights that are zero for the first input, and mostly for others."""
    weight = torch.zeros(outputs, inputs)
    weight[:, 1] = 1
    return weight


class _Overflow(nn.Module):
    """A function whose result may be infinite, and a layer that multiplies this by zeros."""

    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function, self.layer = function, nn.Linear(32, 2)
        self.layer.weight.data = dead_inputs(2, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(self.function(x))  # type: ignore[no-any-return]


OVERFLOWS: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], tuple[int, ...], float]] = {
    "exp": (torch.exp, (32,), 100.0),
    "sqrt": (torch.sqrt, (32,), -1.0),
    "leaky": (lambda x: nn.functional.leaky_relu(x, 2.0), (32,), -3e38),
    "square": (lambda x: x * x, (32,), 3e38),
    "mean": (lambda x: x.mean(2), (32, 3), 3e38),
    "pool": (lambda x: nn.functional.avg_pool2d(x, 2).flatten(1), (32, 2, 2), 3e38),
    "wide pool": (lambda x: nn.functional.avg_pool2d(x, 3).flatten(1), (32, 3, 3), 3e38),
    "norm": (lambda x: nn.functional.layer_norm(x, (32,)), (32,), np.inf),
    "matmul": (lambda x: (x.unsqueeze(1) @ x.unsqueeze(2)).flatten(1).expand(-1, 32), (32,), 3e38),
}  # fmt: skip


@pytest.mark.parametrize("name", OVERFLOWS)
@pytest.mark.parametrize("items", [1, 20])
def test_what_overflows_inside_is_not_lost_where_weights_are_zero(name: str, items: int) -> None:
    function, shape, value = OVERFLOWS[name]
    network = _Overflow(function).eval()
    x = torch.ones(items, *shape)
    compiled = asni.compile(network, example=x)
    same(compiled(x), network(x))
    x[0, 0] = value
    same(compiled(x), network(x))
    assert torch.isnan(compiled(x)[0]).all()
    x[0, 0] = 1
    same(compiled(x), network(x))


@pytest.mark.parametrize("items", BATCHES)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 3e38])
def test_what_is_no_number_comes_out_where_pytorch_has_it(
    engine: Engine, network: nn.Module, items: int, value: float
) -> None:
    finite = images(items)
    x = finite.clone()
    x[items // 2, 1, 5, 7] = value
    same(engine(x), network(x))
    same(engine(finite), network(finite))


@pytest.mark.parametrize("kernel", [1, 3])
@pytest.mark.parametrize("items", [1, 20])
def test_only_the_places_that_see_it_become_nan(kernel: int, items: int) -> None:
    layer = sparse(nn.Conv2d(4, 6, kernel, padding=kernel // 2), 0.1)
    x = torch.from_numpy(normal(items, 4, 7, 7))
    x[items - 1, 2, 3, 6] = np.inf
    result = asni.compile(layer, example=x)(x)
    assert torch.equal(torch.isnan(result), torch.isnan(layer(x)))
    same(result, layer(x))


@pytest.mark.parametrize("items", [1, 20])
def test_special_numbers_of_functions(items: int) -> None:
    values = [-np.inf, -0.0, 0.0, np.inf, np.nan, -1e-45, 1e-45, 3e38, -3e38, -104.0, 89.0]
    x = torch.tensor([values] * items)
    functions: list[Callable[[torch.Tensor], torch.Tensor]] = [
        torch.relu, torch.sigmoid, torch.tanh, torch.exp, torch.sqrt, torch.abs, torch.neg, torch.erf,
        nn.functional.leaky_relu, nn.functional.relu6, nn.functional.hardsigmoid, lambda x: 1 / torch.abs(x),
        lambda x: torch.maximum(x, x * 0), lambda x: x.softmax(1), lambda x: x[:, 5:8].softmax(1),
    ]  # fmt: skip
    module = _Function(lambda x: tuple(function(x) for function in functions))
    with np.errstate(all="ignore"):
        results = asni.compile(module, example=x)(x)
    for result, expected in zip(results, module(x), strict=True):
        same(result, expected)


class _Function(nn.Module):
    def __init__(self, function: Callable[[torch.Tensor], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x)


# What is finite must stay on the fast way.


def is_careful(compiled: Engine) -> bool:
    return any(part._careful is not None for parts in compiled._parts.values() for part in parts)


@HAS_CORE
@pytest.mark.parametrize("size", [5, 7])
def test_what_lies_behind_a_map_does_not_grow_from_call_to_call(size: int) -> None:
    layers: list[nn.Module] = []
    for _ in range(6):
        layers += [nn.Conv2d(16, 16, 1), nn.ReLU()]
        nn.init.uniform_(layers[-2].weight, 0, 1)  # type: ignore[arg-type]
    network = sparse(nn.Sequential(*layers), 0.5)
    compiled = asni.compile(network, example=torch.zeros(1, 16, size, size))
    x = torch.from_numpy(normal(1, 16, size, size))
    expected = compiled(x)
    for _ in range(200):
        assert torch.equal(compiled(x), expected)
    assert not is_careful(compiled)


@HAS_CORE
def test_vectors_that_items_do_not_fill_divide_nothing_by_zero() -> None:
    compiled = asni.compile(_Function(lambda x: x / x.mean(1, keepdim=True)), example=torch.ones(1, 5))
    for items in (1, 9, 33):
        compiled(torch.ones(items, 5))
    assert not is_careful(compiled)


# Inputs and outputs


def networks_with_odd_ends() -> dict[str, Steps]:
    found = {
        "outputs in another order": graph(
            [node("Relu", "x", "a"), node("Sigmoid", "a", "b"), node("Neg", "a", "c")], outputs=("c", "a", "b"), x=(4,)
        ),
        "an unused input": graph([node("Relu", "y", "a")], outputs=("a",), x=(3, 4), y=(2,)),
        "inputs as outputs": graph([node("Relu", "y", "a")], outputs=("y", "a", "x"), x=(3, 4), y=(2,)),
        "nothing to do": graph([node("Identity", "x", "a")], x=(3,)),
        "a map in between": graph(
            [node("Conv", "x w", "a", pads=(1, 1, 1, 1)), node("Relu", "a", "r"), node("Conv", "r v", "b")],
            {"w": normal(4, 3, 3, 3), "v": normal(2, 4, 1, 1)}, outputs=("b", "a", "x"), x=(3, 5, 5),
        ),
        "two inputs": graph([node("Mul", "x y", "a"), node("Add", "a x", "b")], outputs=("b", "a"), x=(4,), y=(4,)),
    }  # fmt: skip
    return {name: fuse(lower(each)) for name, each in found.items()}


@HAS_CORE
@pytest.mark.parametrize("name", networks_with_odd_ends())
def test_a_network_may_be_cut_before_any_step(name: str, tmp_path: Path) -> None:
    steps = networks_with_odd_ends()[name]
    inputs = [normal(20, *steps.shapes[each][1:], seed=index) for index, each in enumerate(steps.inputs)]
    expected = interpreted(steps, inputs)
    for cut in (None, *range(len(steps.steps) + 1)):
        plan = tmp_path / f"{cut}.plan"
        Engine(steps, plan=plan, items=20)
        content = json.loads(plan.read_text())
        plan.write_text(json.dumps({**content, "cut": content["cut"] if cut is None else cut}))
        results = Engine(steps, plan=plan, items=20)(*inputs)
        for result, each in zip(results if isinstance(results, tuple) else (results,), expected, strict=True):
            np.testing.assert_allclose(result, each, rtol=1e-4, atol=1e-5)


@HAS_CORE
def test_large_maps_run_item_by_item(network: nn.Module, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("asni.engine.engine._VECTOR_BYTES", 1000)
    compiled = asni.compile(network, example=images(64))
    same(compiled(images(64)), network(images(64)))
    assert [(row.kind, bool(row.kernel)) for row in compiled.plan if row.density] == [
        ("conv", True), ("conv", True), ("linear", True),
    ]  # fmt: skip


def test_parts_hand_over_what_is_needed() -> None:
    steps = networks_with_odd_ends()["a map in between"]
    for cut in range(len(steps.steps) + 1):
        before, after = cut_in_two(steps, cut)
        assert before.inputs == steps.inputs
        assert after.outputs == steps.outputs
        if before is not steps and after is not steps:
            assert before.outputs == after.inputs


def test_mixed_arrays_and_scalars() -> None:
    steps = networks_with_odd_ends()["two inputs"]
    compiled, x = Engine(steps), normal(3, 4)
    for given in ((x, torch.from_numpy(x)), (torch.from_numpy(x), x)):
        assert all(type(result) is torch.Tensor for result in compiled(*given))
    scalar = Engine(fuse(lower(Graph({"x": ()}, ("y",), (node("Relu", "x", "y"),), {}))))
    assert scalar(torch.tensor(3.0)).shape == ()
    assert float(scalar(torch.tensor(3.0))) == float(scalar(np.array(3, np.float32))) == 3.0


def test_a_fixed_batch_is_the_only_one() -> None:
    steps = fuse(lower(Graph({"x": (2, 3)}, ("y",), (node("Softmax", "x", "y", axis=0),), {})))
    x = normal(2, 3)
    np.testing.assert_allclose(Engine(steps)(x), np.exp(x) / np.exp(x).sum(0), rtol=1e-5)
    with pytest.raises(asni.EngineError, match="this batch size alone"):
        Engine(steps)(normal(4, 3))


# Threads, processes and copies


@pytest.mark.parametrize("threads", [1, 2])
def test_many_threads_may_call_one_engine(network: nn.Module, threads: int) -> None:
    compiled = asni.compile(network, example=images(1), threads=threads)
    batches = [images(items) * items for items in (1, 2, 17, 40, 70)] * 8
    with torch.no_grad():
        expected = [network(x) for x in batches]
    with ThreadPoolExecutor(6) as pool:
        for result, each in zip(pool.map(compiled, batches), expected, strict=True):
            same(result, each)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_may_go_on_with_the_engine(network: nn.Module, threads: int) -> None:
    compiled = asni.compile(network, example=images(1), threads=threads)
    x = images(20)
    expected = compiled(x)
    child = os.fork()
    if child == 0:
        os._exit(0 if torch.equal(compiled(x), expected) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert torch.equal(compiled(x), expected)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))])
def test_copies_run(engine: Engine, copied: Callable[[Engine], Engine]) -> None:
    x = images(3)
    same(copied(engine)(x), engine(x))


ON_AN_INSTRUCTION_SET = """
import sys, numpy as np, asni
arrays = np.load(sys.argv[2])
engine = asni.load_engine(sys.argv[1])
for items in (1, 20):
    np.testing.assert_allclose(engine(arrays["x"][:items]), arrays["y"][:items], rtol=1e-4, atol=1e-5)
assert "torch" not in sys.modules
"""


@pytest.mark.parametrize("isa", [*ISAS, "numpy"])
def test_every_instruction_set_gives_the_same_without_torch(packed: Path, network: nn.Module, isa: str) -> None:
    x = images(20)
    np.savez(packed.with_name("arrays.npz"), x=x.numpy(), y=network(x).detach().numpy())
    command = [sys.executable, "-c", ON_AN_INSTRUCTION_SET, "net.asni", "arrays.npz"]
    subprocess.run(command, cwd=packed.parent, env=os.environ | {"ASNI_ISA": isa}, check=True)


# Plans


def kernels(compiled: Engine) -> list[tuple[str, str]]:
    return [(row.name, row.kernel) for row in compiled.plan]


@HAS_CORE
def test_a_plan_is_kept_beside_the_file_and_read_again(packed: Path) -> None:
    first = asni.load_engine(packed)
    first(images(20))
    plan = packed.with_name("net.asni.plan")
    kept = plan.read_bytes()
    second = asni.load_engine(packed)
    second(images(20))
    assert plan.read_bytes() == kept
    assert kernels(first) == kernels(second)
    assert torch.equal(first(images(20)), second(images(20)))


@HAS_CORE
@pytest.mark.parametrize("key", ["network", "isa", "version"])
def test_the_plan_of_something_else_is_made_anew(packed: Path, key: str) -> None:
    plan = packed.with_name("net.asni.plan")
    asni.load_engine(packed)(images(20))
    kept = plan.read_text()
    plan.write_text(json.dumps({**json.loads(kept), key: "other", "cut": 0}))
    asni.load_engine(packed)(images(20))
    assert json.loads(plan.read_text())[key] == json.loads(kept)[key]


@HAS_CORE
@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[: len(text) // 2],
        lambda text: "[]",
        lambda text: text.replace('"cut"', '"but"'),
        lambda text: text.replace("sparse", "sparser", 1).replace("dense", "denser", 1),
        lambda text: json.dumps({**json.loads(text), "cut": 99}),
        lambda text: json.dumps({**json.loads(text), "choices": 5}),
        lambda text: "[" * 100_000,
    ],
)
def test_a_damaged_plan_is_refused(packed: Path, damage: Callable[[str], str]) -> None:
    asni.load_engine(packed)(images(20))
    plan = packed.with_name("net.asni.plan")
    plan.write_text(damage(plan.read_text()))
    with pytest.raises(asni.EngineError, match=r"net\.asni\.plan: not a plan of asni, or damaged; delete it"):
        asni.load_engine(packed)


@HAS_CORE
@pytest.mark.parametrize(
    "changed",
    [
        {"tile": [16, 1, 1, 999]}, {"tile": [3, 1, 1, 1]}, {"tile": []}, {"blocks": 0}, {"blocks": -1},
        {"blocks": 10**9}, {"kernel": "sparse_row"}, {"kernel": "winograd", "tile": [1]},
    ],
)  # fmt: skip
def test_a_plan_with_kernels_that_cannot_run_is_refused(packed: Path, changed: dict[str, Any]) -> None:
    asni.load_engine(packed)(images(20))
    plan = packed.with_name("net.asni.plan")
    content = json.loads(plan.read_text())
    first = min(content["choices"]["plain"], key=int)
    tile = {"kernel": "sparse", "tile": [4, 1, 1, 1], "blocks": 1, "whole": False}
    content["choices"]["plain"][first] = tile | changed
    plan.write_text(json.dumps(content))
    with pytest.raises(asni.EngineError, match="delete it to make a new one"):
        asni.load_engine(packed)


@HAS_CORE
def test_a_folder_that_cannot_be_written_to_costs_only_time(packed: Path) -> None:
    (packed.parent / "folder").mkdir()
    with pytest.raises(asni.EngineError, match="folder: cannot be read"):
        asni.compile(packed, plan=packed.parent / "folder")
    same(asni.compile(packed, plan=packed.parent / "missing" / "plan")(images(2)), small_network()(images(2)))


@HAS_CORE
@pytest.mark.parametrize("items", BATCHES)
def test_a_fixed_plan_gives_the_same_bits_whatever_the_threads(packed: Path, items: int) -> None:
    x = images(items)
    asni.load_engine(packed)(images(64))
    results = [asni.load_engine(packed, threads=threads)(x) for threads in (1, 1, 2, 3)]
    assert all(torch.equal(one, other) for one, other in pairwise(results))


# The rows of a plan


@HAS_CORE
def test_the_plan_shows_every_step(engine: Engine) -> None:
    for items in (1, 64):
        engine(images(items))
        layers = [row for row in engine.plan if row.kind in ("conv", "linear")]
        assert [row.kind for row in layers] == ["conv", "conv", "linear"]
        assert all(row.kernel and row.density is not None and 0 < row.density < 1 for row in layers)
        assert all(row.milliseconds > 0 for row in layers)


@pytest.mark.parametrize(("arguments", "said"), [({}, "needs an example"), ({"threads": 0}, "threads = 0: at least 1")])
def test_mistakes_of_the_caller(network: nn.Module, arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(asni.AsniError, match=said):
        asni.compile(network, **arguments)


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(asni.EngineError, match=r"neither an \.asni nor an \.onnx file"):
        asni.compile(tmp_path / "net.pt")


def test_weights_that_are_no_numbers_are_refused() -> None:
    layer = nn.Linear(2, 2)
    layer.weight.data[0, 0] = np.nan
    with pytest.raises(asni.EngineError, match="weight has NaN or infinite values"):
        asni.compile(layer, example=torch.zeros(1, 2))


def test_an_engine_tells_what_it_is(engine: Engine) -> None:
    assert repr(engine).startswith("Engine((N, 3, 12, 12), ")
    assert native.choice().isa in (*ISAS, "numpy")

"""Milliseconds of layers: which tables there are, what is kept in a file, what is refused. No test looks at a time."""

import json
import logging
import math
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import asni
from asni.engine import layer_times, native
from asni.engine.program import tuning
from asni.errors import UsageError
from asni.pruning.costs import Budget, Costs, Table
from benchmarks import latency
from tests.engine.native_programs import ISAS

pytestmark = pytest.mark.skipif(not ISAS, reason="there is no native core")
IMAGES = torch.zeros(2, 3, 8, 8)


@pytest.fixture(autouse=True)
def _briefly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layer_times, "DENSITIES", (0, 0.1, 1))
    monkeypatch.setattr(layer_times, "SECONDS_OF_TABLE", 0.0)
    monkeypatch.setattr(layer_times, "TURN_SECONDS", 0.0)
    monkeypatch.setattr(tuning, "_SECONDS", 0.0)


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Which networks were measured instead of read."""
    found: list[str] = []
    measure = layer_times._Network.measured

    def noted(network: layer_times._Network) -> layer_times._Times:
        found.append(", ".join(network.sizes))
        return measure(network)

    monkeypatch.setattr(layer_times._Network, "measured", noted)
    return found


class Net(nn.Module):
    """A layer that runs twice, one whose weight another has too, and attention, whose step multiplies a transpose."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU())
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.twice, self.other, self.last = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 5)
        self.other.weight = self.twice.weight

    def forward(self, images: Tensor) -> Tensor:
        x = self.first(images).flatten(2).transpose(1, 2)
        x = self.attention(x, x, x, need_weights=False)[0]
        return self.last(self.other(self.twice(self.twice(x))).mean(1))  # type: ignore[no-any-return]


def small_network(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 10))


def files(folder: Path) -> list[Path]:
    return list(folder.iterdir())


def test_every_prunable_layer_has_a_table_up_to_all_its_weights_that_never_falls(tmp_path: Path) -> None:
    network = Net()
    costs = asni.layer_times(network, IMAGES, cache=tmp_path)
    weights = asni.prunable(network)
    assert costs.layers.keys() == weights.keys()
    assert costs.unit == "ms"
    assert costs.fixed >= 0
    for name, (table,) in costs.layers.items():
        assert table.counts[0] == 0
        assert table.weights == weights[name].numel()
        assert all(less < more for less, more in pairwise(table.counts))
        assert all(0 <= less <= more < math.inf for less, more in pairwise(table.costs))
    assert 0 < costs.dense < math.inf


def test_a_step_belongs_to_the_weight_that_it_multiplies_by_however_often_it_runs() -> None:
    network = layer_times._Network(model := Net(), IMAGES, 1, asni.prunable(model))
    counts = {name: number for number, name in enumerate(network.sizes, start=2)}
    found: dict[str, list[int]] = {name: [] for name in counts}
    for step in network.engine(counts).steps.steps:
        if "weight" in step.constants:
            found[network.owners[step.name]].append(int((step.constants["weight"] != 0).sum()))
    assert found == {name: [count] * (3 if name == "twice.weight" else 1) for name, count in counts.items()}


def test_a_layer_that_is_left_out_is_part_of_all_else(tmp_path: Path) -> None:
    costs = asni.layer_times(Net(), IMAGES, cache=tmp_path, exclude="first")
    assert costs.layers.keys() == asni.prunable(Net(), exclude="first").keys()


def test_what_was_measured_is_kept_for_networks_of_the_same_structure(tmp_path: Path, measured: list[str]) -> None:
    first = asni.layer_times(small_network(0), IMAGES, cache=tmp_path)
    again = asni.layer_times(small_network(1), torch.ones(IMAGES.shape), cache=tmp_path)
    assert first == again
    assert len(measured) == len(files(tmp_path)) == 1


def test_another_batch_other_threads_and_another_network_are_measured(tmp_path: Path, measured: list[str]) -> None:
    wider = nn.Sequential(nn.Conv2d(3, 9, 3), nn.ReLU(), nn.Flatten(), nn.Linear(324, 10))
    asni.layer_times(small_network(), IMAGES, cache=tmp_path)
    asni.layer_times(small_network(), IMAGES[:1], cache=tmp_path)
    asni.layer_times(small_network(), IMAGES, threads=2, cache=tmp_path)
    asni.layer_times(small_network(), IMAGES, cache=tmp_path, exclude="0")
    asni.layer_times(wider, IMAGES, cache=tmp_path)
    assert len(measured) == len(files(tmp_path)) == 5


def changed(content: dict[str, Any], **fields: Any) -> str:
    return json.dumps(content | fields)


DAMAGES: dict[str, Callable[[dict[str, Any]], str]] = {
    "cut off": lambda content: json.dumps(content)[:-9],
    "a list": lambda content: "[]",
    "no times": lambda content: changed(content, layers=None),
    "a list of layers": lambda content: changed(content, layers=list(content["layers"])),
    "a layer is missing": lambda content: changed(content, layers={}),
    "times that fall": lambda content: changed(content, layers={key: [2.0, 1.0, 3.0] for key in content["layers"]}),
    "too few times": lambda content: changed(content, layers={key: [1.0, 2.0] for key in content["layers"]}),
    "NaN": lambda content: changed(content, layers={key: [1.0, math.nan, 3.0] for key in content["layers"]}),
    "infinity": lambda content: changed(content, fixed=math.inf),
    "below zero": lambda content: changed(content, fixed=-1.0),
    "text": lambda content: changed(content, fixed="1.0"),
    "of another network": lambda content: changed(content, key=content["key"] | {"network": "0"}),
    "too large": lambda content: " " * (layer_times._LIMIT + 1),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_measured_again_and_said(
    damage: str, tmp_path: Path, measured: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    asni.layer_times(small_network(), IMAGES, cache=tmp_path)
    (file,) = files(tmp_path)
    file.write_text(DAMAGES[damage](json.loads(file.read_text())))
    with caplog.at_level(logging.WARNING, "asni.engine"):
        costs = asni.layer_times(small_network(), IMAGES, cache=tmp_path)
    assert len(measured) == 2
    assert f"{file.name} is not a table of times" in caplog.text
    assert asni.layer_times(small_network(), IMAGES, cache=tmp_path) == costs
    assert len(measured) == 2


def test_a_folder_that_cannot_be_written_to_is_no_reason_to_fail(tmp_path: Path, measured: list[str]) -> None:
    (tmp_path / "file").write_text("")
    asni.layer_times(small_network(), IMAGES, cache=tmp_path / "file" / "folder")
    assert len(measured) == 1


def test_the_file_lies_in_the_cache_folder_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platformdirs.user_cache_path", lambda name: tmp_path / name)
    asni.layer_times(small_network(), IMAGES)
    assert [file.suffix for file in files(tmp_path / "asni" / "layer-times")] == [".json"]


def test_a_budget_is_in_milliseconds_or_relative_to_the_dense_network(tmp_path: Path, measured: list[str]) -> None:
    costs = asni.layer_times(small_network(), IMAGES, cache=tmp_path)
    given = asni.latency_budget(small_network(), IMAGES, milliseconds=5, cache=tmp_path)
    faster = asni.latency_budget(small_network(), IMAGES, speedup=4, cache=tmp_path)
    assert len(measured) == 1
    assert given.costs == faster.costs == costs
    assert (given.limit, faster.limit) == (5.0, costs.dense / 4)
    assert given.whole == faster.whole == costs.dense
    assert given.shown(0.0123456) == "0.0123 ms"


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({}, "one of milliseconds= and speedup="),
        ({"milliseconds": 1.0, "speedup": 2.0}, "one of milliseconds= and speedup="),
        ({"milliseconds": 0.0}, "milliseconds must be a number above 0, not 0.0"),
        ({"speedup": -1}, "speedup must be a number above 0, not -1"),
        ({"speedup": math.nan}, "speedup must be a number above 0, not nan"),
        ({"milliseconds": "2"}, "milliseconds must be a number above 0, not '2'"),
        ({"milliseconds": True}, "milliseconds must be a number above 0, not True"),
        ({"milliseconds": 1.0, "threads": 0}, "threads must be a whole number of at least 1, not 0"),
    ],
)
def test_a_budget_that_makes_no_sense_is_refused(asked: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=message):
        asni.latency_budget(small_network(), IMAGES, cache=tmp_path, **asked)


def test_a_budget_that_cannot_be_met_is_refused_with_what_can(tmp_path: Path) -> None:
    network = small_network()
    budget = asni.latency_budget(network, IMAGES, milliseconds=1e-9, cache=tmp_path)
    optimizer = torch.optim.SGD(network.parameters(), 0.1)
    with pytest.raises(UsageError, match=r"^310 weights cannot keep to 1e-09 ms: .* from \S+ ms to \S+ ms\."):
        asni.GMP(network, optimizer, sparsity=0.9, total_steps=10, every=1, budget=budget)


def test_a_pruner_keeps_to_a_budget_of_milliseconds() -> None:
    network = small_network()
    # Weights of the convolution take ten times as long.
    layers = {"0.weight": (Table.linear(216, 0.01),), "3.weight": (Table((0, 288, 2880), (0.1, 0.388, 2.98)),)}
    costs = Costs(layers, fixed=0.5, unit="ms")
    optimizer = torch.optim.SGD(network.parameters(), 0.1)
    budget = Budget(costs, limit=1.2, whole=costs.dense)
    pruner = asni.GMP(network, optimizer, sparsity=0.9, total_steps=10, every=1, budget=budget)
    for _ in range(10):
        network(torch.randn(IMAGES.shape)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    kept = {name: int(weight.count_nonzero()) for name, weight in asni.prunable(network).items()}
    assert sum(kept.values()) == pruner.alive == 310
    assert costs.fixed + sum(table.of(kept[name]) for name, (table,) in layers.items()) <= 1.2


class Crossed(nn.Module):
    """Attention between two values, whose three matrices are cut out of one."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.last = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.attention(x, x + 1, x, need_weights=False)[0])  # type: ignore[no-any-return]


def test_a_layer_whose_time_is_not_known_is_refused_by_its_name_and_can_be_left_out(tmp_path: Path) -> None:
    x = torch.zeros(1, 4, 8)
    with pytest.raises(asni.EngineError, match=r"attention.in_proj_weight is not what a step .* exclude="):
        asni.layer_times(Crossed(), x, cache=tmp_path)
    costs = asni.layer_times(Crossed(), x, cache=tmp_path, exclude="attention.in_proj_weight")
    assert list(costs.layers) == ["attention.out_proj.weight", "last.weight"]


def test_a_layer_that_the_engine_does_not_run_is_refused_by_its_name(tmp_path: Path) -> None:
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ConvTranspose2d(4, 4, 3))
    with pytest.raises(asni.EngineError, match="1 \\(ConvTranspose2d\\): a transposed convolution"):
        asni.layer_times(network, IMAGES, cache=tmp_path)


def test_without_the_native_core_there_is_nothing_to_measure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(native.VARIABLE, native.NUMPY)
    monkeypatch.setattr(native, "_loaded", None)
    with pytest.raises(asni.EngineError, match=r"NumPy runs here \(ASNI_ISA=numpy\). `asni doctor` says"):
        asni.layer_times(small_network(), IMAGES, cache=tmp_path)
    with pytest.raises(asni.EngineError, match="native core"):
        asni.timed(small_network(), IMAGES)


def test_the_page_has_the_table_that_the_results_give() -> None:
    assert latency.tables()["latency"] in latency.PAGE.read_text(encoding="utf-8")

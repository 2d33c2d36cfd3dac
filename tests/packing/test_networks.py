"""Networks that are built again from a file, and trained from it."""

import json
from pathlib import Path
from shutil import copytree
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import asni
from asni.errors import AsniError, PackError
from asni.methods import METHODS
from asni.networks import build
from asni.packing import inspect, pack, read, rebuild, recipe_of, train_from
from asni.packing.convert import from_torch
from asni.packing.rebuilding import fill
from asni.packing.writing import write
from asni.recipes import Recipe
from asni.training.trainer import Trainer
from tests.packing.same_bits import assert_same_bits
from tests.runs.sealing import seal
from tests.training.training_setup import short_digits, trainer

CONV2 = {"name": "conv2", "shape": [1, 8, 8], "classes": 10}


def sparse_conv2() -> nn.Module:
    torch.manual_seed(0)
    model = build("conv2", (1, 8, 8), 10)
    for weight in asni.prunable(model).values():
        weight.data *= weight.abs() > weight.abs().median()
        weight.data += 0.0  # -0.0 becomes 0.0
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Conv2d) and module.bias is not None:
            module.bias.data.normal_()
    return model


def test_amenable_is_the_initialisation_of_the_paper(tmp_path: Path) -> None:
    """Mask, signs and two numbers a layer give what asni.amenable gives, biases included."""
    model = sparse_conv2()
    write(tmp_path / "net.asni", from_torch(model.state_dict()), "amenable", CONV2, {})
    expected = asni.amenable(model)
    assert_same_bits(rebuild(tmp_path / "net.asni").state_dict(), expected.theta_0)
    layers = {layer.name: layer for layer in inspect(tmp_path / "net.asni").layers}
    assert layers.keys() == expected.mask.keys()
    for name, layer in layers.items():
        assert layer.centroids == pytest.approx({"positive": expected.c_plus[name], "negative": expected.c_minus[name]})


def test_amenable_is_mask_and_sign_entropy_and_little_more(tmp_path: Path) -> None:
    write(tmp_path / "net.asni", from_torch(sparse_conv2().state_dict()), "amenable", CONV2, {})
    inspection = inspect(tmp_path / "net.asni")
    assert inspection.ratio is not None
    assert 1 < inspection.ratio < 1.02
    assert inspection.bytes == sum(inspection.parts.values())


def test_a_layer_without_negative_weights_has_one_centroid(tmp_path: Path) -> None:
    layer = pack({"weight": torch.tensor([[1.0, 0.0], [2.0, 0.0]])}, tmp_path / "net.asni", mode="amenable").layers[0]
    assert layer.centroids == {"positive": 1.5, "negative": None}


def test_an_exact_network_is_rebuilt_as_it_was(tmp_path: Path) -> None:
    model = sparse_conv2()
    write(tmp_path / "net.asni", from_torch(model.state_dict()), "exact", CONV2, {})
    assert_same_bits(rebuild(tmp_path / "net.asni").state_dict(), model.state_dict())


def test_code_named_in_a_file_is_imported_only_on_trust(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_packed_network.py").write_text(
        "from torch import nn\ndef small(shape, classes):\n    return nn.Sequential(nn.Linear(3, classes))\n"
    )
    network = {"name": "my_packed_network:small", "shape": [1, 1, 3], "classes": 2}
    state = nn.Sequential(nn.Linear(3, 2)).state_dict()
    write(tmp_path / "net.asni", from_torch(state), "exact", network, {})
    with pytest.raises(PackError, match="--trust-code"):
        rebuild(tmp_path / "net.asni")
    assert_same_bits(rebuild(tmp_path / "net.asni", trust_code=True).state_dict(), state)


def test_weights_of_another_network_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "net.asni", from_torch(nn.Linear(3, 2).state_dict()), "exact", CONV2, {})
    with pytest.raises(PackError, match=r"does not match the network.*\.weight"):
        rebuild(tmp_path / "net.asni")


@pytest.mark.filterwarnings("ignore:Initializing zero-element tensors")
@pytest.mark.parametrize("name", ["fc", "conv2", "vgg11", "resnet18"])
@pytest.mark.parametrize(
    ("shape", "classes"),
    [([2**40] * 3, 10), ([2**62] * 3, 10), ([2**30, 1, 1], 10), ([0, 0, 0], 0), ([1, 8, 8], 2**40), ([1, 8, 8], 2**62)],
)
def test_a_network_of_another_size_than_its_tensors_is_refused_before_it_takes_memory(
    tmp_path: Path, name: str, shape: list[int], classes: int
) -> None:
    network = {"name": name, "shape": shape, "classes": classes}
    for mode in ("exact", "amenable"):
        write(tmp_path / "net.asni", from_torch({"linear1.weight": torch.ones(300, 4)}), mode, network, {})
        with pytest.raises(PackError, match=r"net\.asni: .*(cannot be built for|does not match)"):
            rebuild(tmp_path / "net.asni")


@pytest.mark.parametrize(
    "change",
    [{"classes": -3}, {"classes": 10**4000}, {"classes": 1.5}, {"classes": "ten"}, {"shape": [-1, 8, 8]}, {"name": 3}],
)
def test_sizes_of_a_network_that_are_no_sizes_are_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    write(tmp_path / "net.asni", from_torch(sparse_conv2().state_dict()), "exact", CONV2 | change, {})
    with pytest.raises(PackError, match=r"net\.asni: the (header|shape)"):
        rebuild(tmp_path / "net.asni")


def test_a_name_that_is_no_network_is_refused_with_the_file(tmp_path: Path) -> None:
    write(tmp_path / "net.asni", from_torch(nn.Linear(3, 2).state_dict()), "exact", CONV2 | {"name": "conv3"}, {})
    with pytest.raises(PackError, match=r"net\.asni: no network 'conv3'"):
        rebuild(tmp_path / "net.asni")


def test_layers_that_an_amenable_file_does_not_hold_count_too(tmp_path: Path) -> None:
    """The recipe of the file excludes the only layer that would show how large the input is."""
    recipe = short_digits().model_dump()
    recipe["pruning"]["exclude"] = ["linear1"]
    network = {"name": "fc", "shape": [1, 10**4, 10**4], "classes": 10}
    state = {"linear2.weight": torch.ones(100, 300), "linear3.weight": torch.ones(10, 100)}
    write(tmp_path / "net.asni", from_torch(state), "amenable", network, {"recipe": recipe})
    with pytest.raises(PackError, match=r"net\.asni: reading it may take 120,\d+ MB"):
        rebuild(tmp_path / "net.asni")


def test_trusted_code_with_hostile_options_is_refused_before_it_takes_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_wide_network.py").write_text(
        "from torch import nn\n"
        "def wide(shape, classes, width):\n"
        "    return nn.Sequential(nn.Linear(width, width), nn.Linear(3, 2))\n"
    )
    network = {"name": "my_wide_network:wide", "shape": [1, 1, 3], "classes": 2, "options": {"width": 10**6}}
    write(tmp_path / "net.asni", from_torch(nn.Linear(3, 2).state_dict()), "exact", network, {})
    with pytest.raises(PackError, match=r"net\.asni: the file does not match the network.* 0\.weight"):
        rebuild(tmp_path / "net.asni", trust_code=True)


def test_code_that_cannot_be_built_without_memory_is_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_counting_network.py").write_text(
        "import torch\n"
        "def counting(shape, classes):\n"
        "    return torch.nn.Linear(int(torch.ones(3).sum().item()), classes)\n"
    )
    network = {"name": "my_counting_network:counting", "shape": [1, 1, 3], "classes": 2}
    state = nn.Linear(3, 2).state_dict()
    write(tmp_path / "net.asni", from_torch(state), "exact", network, {})
    assert_same_bits(rebuild(tmp_path / "net.asni", trust_code=True).state_dict(), state)


def test_a_file_of_bare_weights_cannot_be_rebuilt(tmp_path: Path) -> None:
    pack(nn.Linear(3, 2).state_dict(), tmp_path / "net.asni")
    with pytest.raises(PackError, match=r"asni\.load"):
        rebuild(tmp_path / "net.asni")
    with pytest.raises(PackError, match=r"net\.asni .*no recipe"):
        recipe_of(tmp_path / "net.asni")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Trainer]:
    """ASNI-I and ASNI-II of a shortened recipe, trained."""
    METHODS["asni-2"].train(trained := trainer(tmp_path_factory.mktemp("runs")))
    return trained.experiment.home, trained


def test_training_from_an_amenable_file_is_asni_2_bit_for_bit(runs: tuple[Path, Trainer], tmp_path: Path) -> None:
    home, trained = runs
    pack(home / "asni-1", tmp_path / "net.asni", mode="amenable")
    assert recipe_of(tmp_path / "net.asni").training == trained.recipe.training
    again = train_from(trained, tmp_path / "net.asni")
    assert (again.directory / "weights.safetensors").read_bytes() == (
        home / "asni-2" / "weights.safetensors"
    ).read_bytes()


def test_the_amenable_file_of_an_asni_2_run_holds_what_it_started_from(
    runs: tuple[Path, Trainer], tmp_path: Path
) -> None:
    home, _ = runs
    pack(home / "asni-1", tmp_path / "one.asni", mode="amenable")
    pack(home / "asni-2", tmp_path / "two.asni", mode="amenable")
    assert read(tmp_path / "one.asni").content == read(tmp_path / "two.asni").content


def test_layers_that_a_recipe_excludes_are_no_part_of_an_amenable_file_and_start_as_they_did(
    tmp_path: Path,
) -> None:
    asked = short_digits(epochs=2)
    pruning = asked.pruning.model_copy(update={"exclude": ["linear3"]})
    training = trainer(tmp_path, asked.model_copy(update={"pruning": pruning}))
    sparse, again = (METHODS[method].train(training) for method in ("asni-1", "asni-2"))
    inspection = pack(sparse.directory, tmp_path / "net.asni", mode="amenable")
    assert inspection.schedule["exclude"] == ["linear3"]
    assert [layer.name for layer in inspection.layers] == ["linear1.weight", "linear2.weight"]
    assert torch.equal(again.initial["linear3.weight"], sparse.initial["linear3.weight"])
    from_file = train_from(training, tmp_path / "net.asni")
    assert_same_bits(from_file.weights, again.weights)
    assert list(from_file.masks) == ["linear1.weight", "linear2.weight"]


def test_a_file_keeps_the_layers_the_floor_and_the_score_of_its_recipe(tmp_path: Path) -> None:
    asked = short_digits(epochs=2)
    chosen = {"include": ["linear*"], "exclude": ["linear3"], "floor": 0.04, "score": "lamp"}
    pruning = asked.pruning.model_copy(update=chosen)
    sparse = METHODS["asni-1"].train(trainer(tmp_path, asked.model_copy(update={"pruning": pruning})))
    assert all(mask.float().mean() >= 0.04 for mask in sparse.masks.values())
    for mode in ("exact", "amenable"):
        inspection = pack(sparse.directory, tmp_path / "net.asni", mode=mode)
        assert chosen.items() <= inspection.schedule.items()
        assert recipe_of(tmp_path / "net.asni").pruning == pruning
        rebuilt = rebuild(tmp_path / "net.asni").state_dict()
        assert list(sparse.masks) == ["linear1.weight", "linear2.weight"]
        assert all(torch.equal(rebuilt[name] != 0, mask) for name, mask in sparse.masks.items())
        assert bool((rebuilt["linear3.weight"] != 0).all())


def test_a_packed_run_knows_where_it_came_from(runs: tuple[Path, Trainer], tmp_path: Path) -> None:
    home, _ = runs
    inspection = pack(home / "asni-1", tmp_path / "net.asni")
    result: dict[str, Any] = json.loads((home / "asni-1" / "result.json").read_text())
    assert inspection.network == {"name": "fc", "shape": [1, 8, 8], "classes": 10}
    assert {**inspection.metrics, "rounds": ["asni-1"]} == {
        key: value for key, value in result.items() if key not in ("files", "checksum")
    }
    assert inspection.schedule == {
        "sparsity": 0.95, "schedule": "sigmoid", "beta": 0.5, "least": 0.0, "score": "magnitude"
    }  # fmt: skip
    assert inspection.nonzeros == np.round(0.05 * 50200)
    assert isinstance(recipe_of(tmp_path / "net.asni"), Recipe)


def test_an_unfinished_run_is_refused(runs: tuple[Path, Trainer], tmp_path: Path) -> None:
    with pytest.raises(PackError, match="not a finished run"):
        pack(runs[0], tmp_path / "net.asni")


def test_options_of_a_network_are_packed_as_they_are(runs: tuple[Path, Trainer], tmp_path: Path) -> None:
    home = tmp_path / "run"
    copytree(runs[0] / "asni-1", home)
    request = json.loads((home / "request.json").read_text())
    options = {"paper": 5, "title": "x", "nothing": {}}
    request["recipe"] |= {"network": "somebody.s:own", "network_options": options}
    (home / "request.json").write_text(json.dumps(request))
    seal(home)
    assert pack(home, tmp_path / "net.asni").recipe["network_options"] == options


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("request.json", "{}", "no recipe"),
        ("request.json", '{"recipe": {}}', "missing"),
        ("result.json", '{"accuracy": 3}', "missing"),
    ],
)
def test_a_damaged_run_is_named(
    runs: tuple[Path, Trainer], tmp_path: Path, file: str, content: str, message: str
) -> None:
    home = tmp_path / "run"
    copytree(runs[0] / "asni-1", home)
    (home / file).write_text(content)
    seal(home)
    with pytest.raises(AsniError, match=f"{file}.*{message}"):
        pack(home, tmp_path / "net.asni")


def test_a_sparse_run_that_lost_its_mask_is_not_taken_for_a_dense_one(
    runs: tuple[Path, Trainer], tmp_path: Path
) -> None:
    home = tmp_path / "run"
    copytree(runs[0] / "asni-1", home)
    (home / "mask.safetensors").unlink()
    with pytest.raises(AsniError, match=r"mask\.safetensors"):
        pack(home, tmp_path / "net.asni", mode="amenable")


@pytest.mark.filterwarnings("ignore:Initializing zero-element tensors")
def test_a_layer_without_weights_is_no_difference(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(3, 2), nn.Linear(0, 5))
    pack(model.state_dict(), tmp_path / "net.asni", mode="amenable")
    fill(model, read(tmp_path / "net.asni"))

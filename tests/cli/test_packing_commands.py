"""asni pack, unpack, inspect, and train --from."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from asni.engine.frontends.from_packed import read_steps
from asni.engine.interpreter import run
from asni.methods import METHODS
from asni.packing import pack, rebuild
from asni.packing.dtypes import Tensor
from asni.packing.writing import write
from asni.recipes import load
from attack.anatomy import write_ones
from tests.cli.calling import Command
from tests.training.training_setup import trainer


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home of an ASNI-I and an ASNI-II run."""
    trained = trainer(tmp_path_factory.mktemp("runs"))
    METHODS["asni-2"].train(trained)
    return trained.experiment.home


def test_a_run_is_packed_and_unpacked_bit_for_bit(command: Command, runs: Path, tmp_path: Path) -> None:
    packed, out = str(tmp_path / "net.asni"), tmp_path / "net.safetensors"
    assert "times smaller" in command("pack", str(runs / "asni-1"), "-o", packed).out
    command("unpack", packed, "-o", str(out))
    restored, weights = load_file(out), load_file(runs / "asni-1" / "weights.safetensors")
    assert all(torch.equal(restored[name], weights[name]) for name in weights)


def test_rounding_a_run_prints_accuracy_before_and_after(command: Command, runs: Path, tmp_path: Path) -> None:
    recorded = json.loads((runs / "asni-1" / "result.json").read_text())["accuracy"]
    arguments = ("pack", str(runs / "asni-1"), "-o", str(tmp_path / "net.asni"), "--mode", "int8")
    answer = json.loads(command(*arguments, "--json").out)
    assert answer["accuracy_before"] == recorded
    assert abs(answer["accuracy_after"] - recorded) < 2
    assert all(layer["error"]["max"] > 0 for layer in answer["layers"])
    assert f"accuracy {recorded:.2f} % before" in command(*arguments).out


def test_inspect_shows_layers_parts_and_where_it_came_from(command: Command, runs: Path, tmp_path: Path) -> None:
    packed = str(tmp_path / "net.asni")
    command("pack", str(runs / "asni-1"), "-o", packed, "--mode", "amenable")
    facts = json.loads(command("inspect", packed, "--json").out)
    assert facts["mode"] == "amenable"
    assert facts["bytes"] == Path(packed).stat().st_size == sum(facts["parts"].values())
    assert facts["ratio"] == (facts["bytes"] - facts["parts"]["about"]) / facts["entropy_bytes"]
    assert [layer["nonzeros"] for layer in facts["layers"]] == [
        int((weight != 0).sum())
        for name, weight in load_file(runs / "asni-1" / "weights.safetensors").items()
        if name.endswith("weight")
    ]
    shown = command("inspect", packed).out
    assert all(word in shown for word in ("linear1.weight", "recipe: name digits-fc", "schedule: sparsity 0.95"))


def test_a_run_is_packed_with_its_graph_and_gives_what_its_network_gives(
    command: Command, runs: Path, tmp_path: Path
) -> None:
    packed = str(tmp_path / "net.asni")
    assert "graph: 6 nodes, from " in command("pack", str(runs / "asni-1"), "-o", packed, "--graph").out
    facts = json.loads(command("inspect", packed, "--json").out)
    ((name, shape),) = facts["graph"]["inputs"].items()
    assert shape[1:] == [1, 8, 8]
    assert f"graph: 6 nodes, from {name} (any x 1 x 8 x 8) to " in command("inspect", packed).out
    x = torch.randn(7, 1, 8, 8)
    (found,) = run(read_steps(packed), [x.numpy()])
    torch.testing.assert_close(torch.from_numpy(found), rebuild(packed).eval()(x).detach())
    command("unpack", packed, "-o", str(tmp_path / "net.safetensors"))
    assert load_file(tmp_path / "net.safetensors").keys() == load_file(runs / "asni-1" / "weights.safetensors").keys()


def test_a_graph_that_cannot_be_packed_is_refused(command: Command, runs: Path, tmp_path: Path) -> None:
    packed = tmp_path / "net.asni"
    save_file({"weight": torch.eye(3)}, tmp_path / "net.safetensors")
    unknown = command("pack", str(tmp_path / "net.safetensors"), "-o", str(packed), "--graph")
    assert (unknown.status, "net.safetensors does not describe its network" in unknown.err) == (1, True)
    amenable = command("pack", str(runs / "asni-1"), "-o", str(packed), "--graph", "--mode", "amenable")
    assert (amenable.status, "amenable file holds what a network is trained from" in amenable.err) == (2, True)
    assert not packed.exists()


def test_training_from_a_packed_file_needs_no_recipe(command: Command, runs: Path, tmp_path: Path) -> None:
    packed, out = str(tmp_path / "net.asni"), tmp_path / "again"
    command("pack", str(runs / "asni-1"), "-o", packed, "--mode", "amenable")
    result = json.loads(command("train", "--from", packed, "--out", str(out), "--json").out)
    expected = json.loads((runs / "asni-2" / "result.json").read_text())
    assert (result["accuracy"], result["nonzeros"]) == (expected["accuracy"], expected["nonzeros"])


def test_a_packed_lottery_ticket_trains_with_the_settings_of_its_own_recipe(command: Command, tmp_path: Path) -> None:
    packed, out = str(tmp_path / "net.asni"), str(tmp_path / "runs")
    settings = ("--lottery-rounds", "1", "--epochs", "2", "--steps-per-epoch", "3")
    trained = json.loads(command("train", "digits-fc", "--method", "lottery", *settings, "--out", out, "--json").out)
    command("pack", trained["directory"], "-o", packed)
    again = command("train", "--from", packed, "--out", str(tmp_path / "again"), "--json")
    assert again.status == 0
    assert json.loads(again.out)["nonzeros"] == trained["nonzeros"]


def test_wrong_requests_are_refused(command: Command, tmp_path: Path) -> None:
    packed = str(tmp_path / "net.asni")
    pack({"weight": torch.eye(3)}, packed)
    assert command("train").status == 2
    assert "--method" in command("train", "digits-fc", "--from", packed, "--method", "dense").err
    assert f"{packed} holds no recipe" in command("train", "--from", packed).err
    assert "linear1.weight" in command("train", "digits-fc", "--from", packed, "--out", str(tmp_path / "run")).err
    (tmp_path / "bad.asni").write_bytes(b"nonsense")
    answer = command("inspect", str(tmp_path / "bad.asni"))
    assert (answer.status, answer.out) == (1, "")
    assert "bad.asni: not an .asni file" in answer.err


@pytest.mark.parametrize("name", ["../../escaped", "{tmp}/escaped", "a/b", "..", ".hidden", "", "a\x1b[2Jb", "n" * 300])
def test_the_recipe_of_a_packed_file_does_not_choose_where_runs_are_written(
    command: Command, tmp_path: Path, name: str
) -> None:
    recipe = load("digits-fc").model_dump() | {"name": name.format(tmp=tmp_path)}
    packed, out = tmp_path / "evil.asni", tmp_path / "some" / "where"
    write(packed, {"weight": Tensor.of(np.eye(3))}, "exact", {}, {"recipe": recipe})
    refused = command("train", "--from", str(packed), "--out", str(out))
    assert refused.status in (1, 2)
    assert f"{packed}: name: " in refused.err
    assert "\x1b" not in refused.err
    assert [path.name for path in tmp_path.iterdir()] == ["evil.asni"]


def test_a_file_that_asks_for_much_memory_says_how_to_allow_it(command: Command, tmp_path: Path) -> None:
    packed, out = str(tmp_path / "net.asni"), str(tmp_path / "net.npz")
    write_ones(Path(packed), [{"name": "w", "dtype": "float32", "shape": [10**7, 1], "sparse": False}], padding=0)
    for arguments in (("inspect", packed), ("unpack", packed, "-o", out, "--to", "csr"), ("train", "--from", packed)):
        refused = command(*arguments)
        assert (refused.status, refused.out) == (1, "")
        assert "--max-memory 297MB" in refused.err
    for size in ("297MB", "297M", "1G", "400000KiB"):
        assert "10,000,000" in command("inspect", packed, "--max-memory", size).out
    assert command("unpack", packed, "-o", out, "--to", "csr", "--max-memory", "0.3 GB").status == 0
    assert "no recipe" in command("train", "--from", packed, "--max-memory", "1gib").err
    for size in ("much", "-1", "0", "", "1XB", "nan", "1e999GB"):
        refused = command("inspect", packed, "--max-memory", size)
        assert refused.status == 2
        assert "8GB" in refused.err


def test_what_a_file_says_about_itself_cannot_command_a_terminal(command: Command, tmp_path: Path) -> None:
    evil = "\x1b[2J\n\u202e"
    about = {"recipe": {"name": evil, evil: evil}, "metrics": {"accuracy": evil}}
    network = {"name": evil, "shape": [1, 2, 3], "classes": 2}
    packed = tmp_path / "net.asni"
    write(packed, {evil: Tensor.of(np.eye(3)), "twin": Tensor.of(np.eye(3))}, "exact", network, about)
    for arguments in ((), ("--sparsity", "0.5"), ("--json",)):
        shown = command("inspect", str(packed), *arguments).out
        assert "\x1b" not in shown
        assert "\u202e" not in shown
        assert r"[2J\n\u202e" in shown


def test_names_are_shown_as_they_are_but_never_as_commands(command: Command, tmp_path: Path) -> None:
    save_file({"[/red]\x1b[2J": torch.eye(3), "twin": torch.eye(3)}, tmp_path / "odd.safetensors")
    command("pack", str(tmp_path / "odd.safetensors"), "-o", str(tmp_path / "net.asni"))
    shown = command("inspect", str(tmp_path / "net.asni")).out
    assert r"[/red]\x1b[2J" in shown
    assert "\x1b[2J" not in shown
    save_file({"\x1b[2J": torch.full((2, 2), torch.inf)}, tmp_path / "odd.safetensors")
    refused = command("pack", str(tmp_path / "odd.safetensors"), "-o", str(tmp_path / "net.asni"), "--mode", "int8").err
    assert r"\x1b[2J holds NaN, infinity" in refused


def test_zeros_with_a_sign_are_reported(command: Command, tmp_path: Path) -> None:
    save_file({"weight": torch.tensor([[1.0, -0.0], [-0.0, 0.0]])}, tmp_path / "net.safetensors")
    printed = command("pack", str(tmp_path / "net.safetensors"), "-o", str(tmp_path / "net.asni")).out
    assert "2 weights are -0.0" in printed
    assert "Add 0.0" in printed


@pytest.mark.parametrize("name", ["pack", "unpack"])
def test_a_file_is_not_replaced_by_what_is_made_from_it(command: Command, tmp_path: Path, name: str) -> None:
    (tmp_path / "net.asni").write_bytes(b"precious")
    (tmp_path / "link.asni").symlink_to(tmp_path / "net.asni")
    answer = command(name, str(tmp_path / "link.asni"), "-o", str(tmp_path / "net.asni"))
    assert (answer.status, "is the file to read" in answer.err) == (2, True)
    assert (tmp_path / "net.asni").read_bytes() == b"precious"

"""Data and optimisers of a user's own, in every command."""

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from asni.datasets import function
from asni.errors import StoppedError
from asni.methods import METHODS
from asni.recipes import load
from tests.cli.calling import Command
from tests.datasets.made_data import arrays, save_folder, save_npz
from tests.training.training_setup import StopAfter, trainer

RECIPE = """
dataset = "{dataset}"
network = "fc"
[training]
epochs = 2
batch_size = 4
optimizer = "torch.optim:RMSprop"
optimizer_options = {{ alpha = 0.9 }}
lr = 1e-3
threads = 1
[pruning]
sparsity = 0.9
"""
CODE = """
import numpy as np

def load():
    with np.load("animals.npz") as arrays:
        return tuple(arrays[name] for name in ("train_images", "train_labels", "test_images", "test_labels"))
"""
FORMS = {"./animals": "animals", "animals.npz": "file", "animal_code:load": "code"}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The same pictures as a folder, as a file and as a function, and a recipe for each."""
    save_folder(tmp_path / "animals")
    save_npz(tmp_path / "animals.npz")
    (tmp_path / "animal_code.py").write_text(CODE)
    for dataset, name in FORMS.items():
        (tmp_path / f"{name}.toml").write_text(RECIPE.format(dataset=dataset))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    function._called.cache_clear()
    yield tmp_path
    sys.modules.pop("animal_code", None)


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize("name", FORMS.values())
def test_own_data_is_planned_trained_reported_packed_and_trained_again(command: Command, name: str) -> None:
    plan = json.loads(command("plan", f"{name}.toml", "--json").out)
    assert (plan["steps_per_epoch"], plan["parameters"]) == (3, 12 * 300 + 300 + 300 * 100 + 100 + 100 * 3 + 3)

    rows = json.loads(command("investigate", f"{name}.toml", "--json").out)
    assert [row["nonzeros"] for row in rows][1:] == [plan["nonzeros"]] * 3
    assert "already done" in command("investigate", f"{name}.toml").err
    assert "4 runs" in command("report", "runs").out

    run = f"runs/{name}/seed-0/asni-1"
    packed = json.loads(command("pack", run, "-o", "net.asni", "--mode", "half", "--trust-code", "--json").out)
    assert packed["network"] == {"name": "fc", "shape": [1, 4, 3], "classes": 3}
    assert packed["accuracy_before"] == rows[1]["accuracy"]
    again = json.loads(command("train", "--from", "net.asni", "--trust-code", "--json").out)
    assert again["nonzeros"] <= plan["nonzeros"]


@pytest.mark.usefixtures("project")
def test_a_recipe_is_compared_on_own_data_in_processes_of_their_own(command: Command) -> None:
    answer = command("compare", "code.toml", "--methods", "dense,gmp", "--jobs", "2", "--json")
    assert [row["method"] for row in json.loads(answer.out)] == ["dense", "gmp"]


@pytest.mark.usefixtures("project")
def test_the_plan_says_that_the_state_of_an_own_optimiser_is_not_counted(command: Command) -> None:
    assert "without activations and the optimiser's state" in command("plan", "file.toml").out


@pytest.mark.parametrize("name", FORMS.values())
def test_changed_data_is_not_taken_for_the_data_of_a_run(command: Command, project: Path, name: str) -> None:
    train = ("train", f"{name}.toml", "--method", "dense")
    assert command(*train).status == 0
    assert "already done" in command(*train).err

    changed = arrays()["train_images"].copy()
    changed[0] = 0
    save_npz(project / "animals.npz", train_images=changed)
    (project / "animals" / "train" / "cat" / "00.png").unlink()
    function._called.cache_clear()

    for arguments in (train, ("investigate", f"{name}.toml"), ("compare", f"{name}.toml", "--methods", "dense")):
        answer = command(*arguments)
        assert answer.status == 1
        assert f"runs/{name}/seed-0/dense holds a different run" in answer.err
        assert "data.checksum is" in answer.err


def test_a_recipe_of_another_directory_finds_the_data_beside_it(
    command: Command, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "below").mkdir()
    monkeypatch.chdir(project / "below")
    assert command("plan", "../animals.toml").status == 0
    assert command("train", "../animals.toml", "--method", "dense").status == 0


@pytest.mark.usefixtures("project")
def test_a_moved_project_goes_on_where_it_was(command: Command, monkeypatch: pytest.MonkeyPatch, project: Path) -> None:
    command("train", "animals.toml", "--method", "dense")
    moved = project.with_name(f"{project.name}-moved")
    shutil.copytree(project, moved)
    monkeypatch.chdir(moved)
    assert "already done" in command("train", "animals.toml", "--method", "dense").err


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize("arguments", [("train", "--from", "net.asni"), ("pack", "runs/code/seed-0/dense", "-o", "b")])
def test_code_that_a_file_names_as_its_data_needs_trust(command: Command, arguments: tuple[str, ...]) -> None:
    command("train", "code.toml", "--method", "dense")
    command("pack", "runs/code/seed-0/dense", "-o", "net.asni")
    answer = command(*arguments, *(["--mode", "half"] if "pack" in arguments else []))
    assert "animal_code:load" in answer.err + answer.out
    assert "--trust-code" in answer.err + answer.out


@pytest.mark.parametrize("command_name", ["plan", "train", "investigate", "compare"])
def test_data_that_cannot_be_read_is_refused_before_anything_is_trained(
    command: Command, project: Path, command_name: str
) -> None:
    shutil.rmtree(project / "animals" / "test")
    answer = command(command_name, "animals.toml")
    assert answer.status == 2
    assert answer.err.startswith("asni: animals has no folder test or val")
    assert not list(project.glob("runs/**/request.json"))


def test_a_damaged_picture_is_named(command: Command, project: Path) -> None:
    (project / "animals" / "train" / "dog" / "01.png").write_bytes(b"")
    answer = command("train", "animals.toml")
    assert answer.status == 1
    assert answer.err.startswith("asni: animals/train/dog/01.png is damaged")


def test_a_wrong_optimiser_is_refused_by_the_plan_and_by_the_training(command: Command, project: Path) -> None:
    (project / "animals.toml").write_text(RECIPE.format(dataset="./animals").replace(":RMSprop", ":RMSporp"))
    for command_name in ("plan", "train"):
        answer = command(command_name, "animals.toml")
        assert answer.status == 2
        assert "'RMSporp'; did you mean 'RMSprop'?" in answer.err
    assert not (project / "runs").exists()


def test_str_refuses_sgd_by_import_path_and_takes_other_classes(command: Command, project: Path) -> None:
    sgd = RECIPE.format(dataset="./animals").replace(":RMSprop", ":SGD").replace("alpha", "momentum")
    (project / "sgd.toml").write_text(sgd)
    answer = command("train", "sgd.toml", "--method", "str")
    assert answer.status == 2
    assert "str cannot use 'torch.optim:SGD'" in answer.err
    assert command("train", "sgd.toml", "--method", "asni-1").status == 0


@pytest.mark.usefixtures("project")
def test_an_interrupted_training_with_an_own_optimiser_resumes_bit_for_bit() -> None:
    whole = METHODS["asni-1"].train(trainer(Path("whole"), load("animals.toml")))
    with pytest.raises(StoppedError):
        METHODS["asni-1"].train(trainer(Path("parts"), load("animals.toml"), progress=StopAfter(5)))
    resumed = METHODS["asni-1"].train(trainer(Path("parts"), load("animals.toml")))
    assert (resumed.directory / "weights.safetensors").read_bytes() == (
        whole.directory / "weights.safetensors"
    ).read_bytes()

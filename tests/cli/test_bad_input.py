"""What cannot be trained is refused before any training starts, in one message, with status 2."""

import re
from pathlib import Path

import pytest

from tests.cli.calling import Command

RECIPE = """
dataset = "digits"
network = "{network}"
[training]
epochs = 2
batch_size = 50
optimizer = "adam"
lr = 1e-3
[pruning]
sparsity = 0.9
"""

NETWORKS = """
from torch import nn

def too_few_outputs(shape, classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(64, classes - 1))

def for_larger_images(shape, classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(784, classes))
"""


@pytest.mark.parametrize("command_name", ["plan", "train"])
@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--epochs", "0", "epochs = 0"),
        ("--epochs", "-1", "epochs = -1"),
        ("--batch-size", "0", "batch_size = 0"),
        ("--steps-per-epoch", "0", "steps_per_epoch = 0"),
        ("--sparsity", "0", "sparsity = 0.0"),
        ("--sparsity", "1", "sparsity = 1.0"),
        ("--sparsity", "120", "sparsity = 120.0"),
        ("--sparsity", "nan", "sparsity = nan"),
    ],
)
def test_a_number_out_of_range(
    command: Command, tmp_path: Path, command_name: str, option: str, value: str, said: str
) -> None:
    where = ["--out", str(tmp_path / "run")] if command_name == "train" else []
    answer = command(command_name, "digits-fc", option, value, *where)
    assert answer.status == 2
    assert said in answer.err
    assert not (tmp_path / "run").exists()


def test_a_batch_larger_than_the_dataset(command: Command, tmp_path: Path) -> None:
    answer = command("train", "digits-fc", "--batch-size", "1501", "--device", "cpu", "--out", str(tmp_path / "run"))
    assert answer.status == 2
    assert re.fullmatch(r"asni: batch_size = 1501 .*1500.*\n", answer.err)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("network", "said"),
    [
        ("misfits:too_few_outputs", r"\b9 outputs.*\b10 classes"),
        ("misfits:for_larger_images", r"\(1, 8, 8\)"),
    ],
)
def test_a_network_that_does_not_fit_the_data(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, network: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    Path("misfits.py").write_text(NETWORKS)
    Path("own.toml").write_text(RECIPE.format(network=network))
    answer = command("train", "own.toml", "--device", "cpu")
    assert answer.status == 2
    assert re.search(said, answer.err)
    assert not list(tmp_path.glob("runs/**/request.json"))


@pytest.mark.parametrize("command_name", ["train", "investigate", "compare"])
def test_a_file_where_the_runs_should_go(command: Command, tmp_path: Path, command_name: str) -> None:
    (tmp_path / "file").touch()
    answer = command(command_name, "digits-fc", "--device", "cpu", "--out", str(tmp_path / "file"))
    assert answer.status == 1
    assert answer.err.startswith("asni: ")
    assert f"directory {tmp_path / 'file'}" in answer.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["compare", "digits-fc", "--seed", "1", "--seeds", "5"], "--seed and --seeds"),
        (["compare", "digits-fc", "--seed", str(2**32)], "4294967295"),
        (["compare", "digits-fc", "--slurm-partition", "gpu"], "--executor slurm"),
        (["investigate", "digits-fc", "--slurm-time", "5"], "--executor slurm"),
        (["train", "--from", "net.asni", "--score", "lamp"], "--score"),
        (["train", "--from", "net.asni", "--sparsity", "0.9"], "--sparsity"),
        (["train", "--from", "net.asni", "--lottery-rate", "0.5"], "--lottery-rate"),
        (["train", "digits-fc", "--alpha", "95", "--sparsity", "0.9"], "alpha and sparsity"),
        (["compare", "digits-fc", "--methods", "gmp,snip", "--gamma", "4"], "--gamma changes nothing for gmp, snip"),
        (["investigate", "digits-fc", "--lottery-rate", "0.5"], "it is for lottery"),
        (
            ["compare", "digits-fc", "--methods", "lottery,snip", "--lottery-rewind", "9"],
            "for lottery-rewind, magnitude",
        ),
        (["compare", "digits-fc", "--score", "lamp", "--methods", "asni-1,snip"], "snip does not support score"),
    ],
)
def test_options_that_contradict_each_other(command: Command, tmp_path: Path, arguments: list[str], said: str) -> None:
    answer = command(*arguments, "--out", str(tmp_path / "runs"))
    assert answer.status == 2
    assert said in answer.err
    assert not (tmp_path / "runs").exists()

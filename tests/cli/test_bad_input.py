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
        ("--sparsity", "0.99999999", "leaves 0 of the 50,200 prunable weights"),
        ("--sparsity", "0.99999", "leaves 1 of the 50,200 prunable weights, too few for 3 layers"),
        ("--epochs", "1000000000", "epochs = 1000000000"),
        ("--epochs", 5000 * "9", "--epochs"),
        ("--steps-per-epoch", "1000000000", "steps_per_epoch = 1000000000"),
        ("--steps-per-epoch", "10000000", "steps_per_epoch = 10,000,000 times batch_size"),
        ("--batch-size", 400 * "9", "batch_size = 999"),
        ("--scale", "1e300", "training.epochs = 300000"),
        ("--lr", "inf", "lr = inf"),
        ("--beta", "1e308", "beta = 1e+308"),
        ("--gamma", "5e-324", "gamma = 5e-324"),
        ("--gamma", "1e308", "gamma = 1e+308"),
        ("--gamma", "-0.0", "gamma = -0.0"),
        ("--alpha", "1e308", "alpha = 1e+308"),
        ("--alpha", "5e-324", "would prune 0.0%"),
        ("--least", "inf", "least = inf"),
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
    assert answer.status == 2
    assert f"{tmp_path / 'file'} is a file, and this command writes a directory" in answer.err


@pytest.mark.parametrize("arguments", [["pack", "net.pt"], ["unpack", "net.asni"], ["report", "runs"]])
def test_a_directory_where_a_file_should_go(command: Command, tmp_path: Path, arguments: list[str]) -> None:
    answer = command(*arguments, "-o", str(tmp_path))
    assert answer.status == 2
    assert f"{tmp_path} is a directory, and this command writes a file" in answer.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["compare", "digits-fc", "--seed", "1", "--seeds", "5"], "--seed and --seeds"),
        (["compare", "digits-fc", "--seed", str(2**32)], "4294967295"),
        (["train", "digits-fc", "--seed", str(2**64)], "4294967295"),
        (["train", "digits-fc", "--seed", "-1"], "--seed"),
        (["train", "digits-fc", "--devices", "100000"], "--devices"),
        (["compare", "digits-fc", "--devices", str(10**21)], "--devices"),
        (["compare", "digits-fc", "--seeds", str(10**12)], "10000"),
        (["reproduce", "1", "--seeds", str(10**12)], "10000"),
        (["compare", "digits-fc", "--jobs", str(10**30)], "10000"),
        (["compare", "digits-fc", "--slurm-time", str(10**30)], "--slurm-time"),
        (["reproduce", 6000 * "1"], "no row or recipe '111"),
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


def test_a_plan_of_the_longest_training_is_a_table_of_a_hundred_rows(command: Command) -> None:
    lines = command("plan", "digits-fc", "--epochs", "100000").out.splitlines()
    end = next(number for number, line in enumerate(lines) if line.startswith("ends with"))
    table = lines[lines.index("after epoch  sparsity  nonzeros") + 1 : end]
    rows = [line.split() for line in table]
    assert [row[0] for row in rows] == ["1", *(f"{epoch:,}" for epoch in range(1000, 100_001, 1000))]
    assert rows[-1][-1] == "2,920"


def test_what_a_recipe_is_called_cannot_fake_a_line_of_output(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own\nasni: done\x1b[2J.toml").write_text(RECIPE.format(network="fc"))
    for name in ("own\nasni: done\x1b[2J.toml", "gone\nasni: done\x1b[2J.toml", "gone\nasni: done\x1b[2J"):
        answer = command("plan", name)
        assert answer.status == 2
        assert answer.err.count("\n") == 1
        assert answer.err.rstrip("\n").isprintable()

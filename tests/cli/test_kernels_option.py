"""`--kernels` reaches the trainings, wherever they run."""

import importlib.util
import json
from pathlib import Path

import pytest

from tests.cli.calling import Command

SHORT = ("--epochs", "1", "--steps-per-epoch", "8", "--device", "cpu")
COMMANDS = {
    "train": ("train", "digits-fc", "--method", "random"),
    "compare": ("compare", "digits-fc", "--methods", "random"),
    "jobs": ("compare", "digits-fc", "--methods", "random,snip", "--jobs", "2"),
    "slurm": ("compare", "digits-fc", "--methods", "random", "--executor", "slurm"),
}


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize(("kernels", "sparse_steps"), [("sparse", 5), ("dense", 0)])
def test_every_command_trains_with_the_kernels_that_are_asked_for(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, kernels: str, sparse_steps: int
) -> None:
    if name == "slurm" and importlib.util.find_spec("submitit") is None:
        pytest.skip("submitit is not installed")
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    answer = command(*COMMANDS[name], *SHORT, "--kernels", kernels, "--out", str(tmp_path))
    assert answer.status == 0, answer.err
    results = [json.loads(path.read_text()) for path in tmp_path.glob("digits*/seed-0/*/result.json")]
    assert {(result["kernels"], result["sparse_steps"]) for result in results} == {(kernels, sparse_steps)}


def test_an_investigation_trains_what_it_can_on_sparse_kernels(command: Command, tmp_path: Path) -> None:
    asked = ("investigate", "digits-fc", "--epochs", "2", "--steps-per-epoch", "8", "--prune-every", "8")
    answer = command(*asked, "--device", "cpu", "--kernels", "sparse", "--out", str(tmp_path), "--json")
    assert {row["variant"]: row["kernels"] for row in json.loads(answer.out)} == {
        "dense": "dense",
        "asni-1": "sparse",
        "asni-2": "sparse",
        "original": "sparse",
    }
    for stage in ("asni-1", "asni-2", "original"):
        assert answer.err.count(f"{stage}: sparse kernels for 3 of 3 layers, steps ") == 1
    assert answer.err.count("dense: dense kernels: nothing is pruned") == 1


def test_the_suggested_command_keeps_the_kernels(command: Command, tmp_path: Path) -> None:
    asked = ("train", "digits-fc", "--method", "dense", "--kernels", "dense", "--out", str(tmp_path), *SHORT)
    assert "--kernels dense --out" in command(*asked).out

"""kill -9 at exact moments, through the command line, in real processes."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from asni.methods import METHODS
from tests.training.training_setup import experiment, trainer

# Every file is synced before it is renamed, so the n-th sync is a moment in the middle of a write.
DRIVER = """
import os, signal, sys
import asni.sparse.stepper, asni.training.round
function, moment, number = sys.argv[1], sys.argv[2], int(sys.argv[3])
module = {"train_step": asni.training.round, "fsync": os, "step": asni.sparse.stepper.Stepper}[function]
original, calls = getattr(module, function), 0
def deadly(*arguments, **options):
    global calls
    calls += 1
    if calls == number:
        os.kill(os.getpid(), getattr(signal, moment))
    return original(*arguments, **options)
setattr(module, function, deadly)
sys.argv = ["asni", "train", "digits-fc", "--epochs", "4", "--out", *sys.argv[4:]]
from asni.cli import main
main()
"""


def train(root: Path, function: str, moment: str, number: int, *more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", DRIVER, function, moment, str(number), str(root), *more]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return METHODS["asni-1"].train(trainer(tmp_path_factory.mktemp("undisturbed"))).directory


KILLS = [
    ("train_step", 7),  # before the first checkpoint
    ("fsync", 2),  # while a run is being started
    ("fsync", 4),  # while the first checkpoint is written
    ("train_step", 35),  # in the second epoch
    ("fsync", 2),  # between a checkpoint and its metrics
    ("fsync", 8),  # while the result is written
]


def test_a_run_killed_again_and_again_ends_as_if_nothing_had_happened(tmp_path: Path, undisturbed: Path) -> None:
    directory = experiment(tmp_path).home / "asni-1"
    for function, number in KILLS:
        assert train(tmp_path, function, "SIGKILL", number).returncode == -signal.SIGKILL
        assert not (directory / "result.json").exists()
    finished = train(tmp_path, "train_step", "SIGKILL", 10**9)
    assert finished.returncode == 0, finished.stderr
    assert_same(directory, undisturbed)


def assert_same(directory: Path, undisturbed: Path) -> None:
    for name in ("weights.safetensors", "mask.safetensors", "initial.safetensors"):
        after, expected = load_file(directory / name), load_file(undisturbed / name)
        assert all(torch.equal(value, expected[key]) for key, value in after.items())


@pytest.mark.parametrize(("method", "kills"), [("random", [2, 40, 10]), ("gmp", [20, 10])])
def test_a_run_on_sparse_kernels_continues_on_them_as_if_nothing_had_happened(
    tmp_path: Path, method: str, kills: list[int]
) -> None:
    asked, never = ("--method", method, "--kernels", "sparse"), 10**9
    assert train(tmp_path / "unhurt", "step", "SIGKILL", never, *asked).returncode == 0
    for number in kills:
        assert train(tmp_path / "killed", "step", "SIGKILL", number, *asked).returncode == -signal.SIGKILL
    finished = train(tmp_path / "killed", "step", "SIGKILL", never, *asked)
    assert finished.returncode == 0, finished.stderr
    assert_same(experiment(tmp_path / "killed").home / method, experiment(tmp_path / "unhurt").home / method)


def test_ctrl_c_on_the_command_line_is_a_message_and_status_130(tmp_path: Path) -> None:
    stopped = train(tmp_path, "train_step", "SIGINT", 40)
    assert stopped.returncode == 130
    assert "epoch 2 of 4" in stopped.stderr
    assert "Traceback" not in stopped.stderr

"""The cluster executor on submitit's local one, which takes the same path where there is no `srun`."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from asni.recipes import load
from asni.runs import names
from asni.studies.overview import Overview
from asni.studies.parallel import Parallel
from asni.studies.study import Study
from tests.cli.calling import Command

submitit = pytest.importorskip("submitit")

from asni.studies.slurm import Slurm  # noqa: E402

PATH = os.environ["PATH"].split(os.pathsep)


@pytest.fixture(autouse=True)
def _no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests must not submit anything where there is a cluster."""
    monkeypatch.setenv("PATH", os.pathsep.join(each for each in PATH if not (Path(each) / "srun").exists()))


def study(root: Path, *methods: str, epochs: int = 1) -> Study:
    recipe = load("digits-fc").override(epochs=epochs, steps_per_epoch=3)
    return Study({"digits-fc": recipe}, [0], methods, "fp32", root)


def test_each_run_is_submitted_and_a_failure_leaves_the_others(tmp_path: Path) -> None:
    asked = study(tmp_path, "asni-1", "asni-2", "dense")
    dense = asked.runs[2]
    (dense.run.directory / names.LOCK).mkdir(parents=True)
    launch = Slurm(tmp_path / "slurm", "cpu", partition="gpu")
    failures = Parallel(2, launch).run(asked.runs, Overview(asked.runs, console=Console(quiet=True)))
    assert list(failures) == [dense]
    assert str(dense.run.directory) in failures[dense]
    assert all(planned.run.finished for planned in asked.runs[:2])


def test_a_preempted_run_is_queued_again_and_resumes(tmp_path: Path) -> None:
    [planned] = study(tmp_path, "asni-1", epochs=400).runs
    [job] = Slurm(tmp_path / "slurm", "cpu")([planned], 1)
    wait_until(lambda: (planned.run.directory / names.METRICS).exists())
    # What Slurm does: the signal goes to the process that waits for the training, a child of submitit's controller.
    controller = int(job.job.job_id)
    [waiting] = Path(f"/proc/{controller}/task/{controller}/children").read_text().split()
    os.kill(int(waiting), signal.SIGUSR2)
    wait_until(lambda: job.poll() is not None)
    assert job.poll() == 0
    assert planned.run.finished
    assert "resuming after step" in planned.log.read_text()


def test_a_cancelled_run_ends_even_if_a_shell_has_it_ignore_ctrl_c(tmp_path: Path) -> None:
    [planned] = study(tmp_path, "dense", epochs=100_000).runs
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        [job] = Slurm(tmp_path / "slurm", "cpu")([planned], 1)
        wait_until(lambda: (planned.run.directory / names.METRICS).exists())
        job.terminate()
        wait_until(lambda: job.poll() is not None)
    finally:
        signal.signal(signal.SIGINT, before)
    assert not planned.run.finished


def wait_until(happened: Callable[[], bool]) -> None:
    until = time.monotonic() + 120
    while not happened():
        assert time.monotonic() < until
        time.sleep(0.05)


def test_on_the_command_line(command: Command, tmp_path: Path) -> None:
    asked = ["compare", "digits-fc", "--epochs", "1", "--steps-per-epoch", "3", "--methods", "dense", "--device", "cpu"]
    answer = command(*asked, "--executor", "slurm", "--slurm-partition", "gpu", "--out", str(tmp_path))
    assert answer.status == 0, answer.err
    assert answer.out.splitlines()[1].split()[0] == "dense"
    assert any((tmp_path / "slurm").iterdir()), "submitit keeps its logs there"


@pytest.mark.parametrize("option", ["gres", "=gpu", ""])
def test_an_option_of_sbatch_without_a_value_is_refused(command: Command, tmp_path: Path, option: str) -> None:
    asked = ["compare", "digits-fc", "--executor", "slurm", "--out", str(tmp_path / "runs"), "--slurm-option", option]
    answer = command(*asked)
    assert answer.status == 2
    assert "--slurm-option" in answer.err
    assert not (tmp_path / "runs").exists()


def test_slurm_gets_a_job_array_that_may_be_requeued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The commands of a cluster, which keep what they are given.
    commands = {"srun": "", "sbatch": f'cp "$1" {tmp_path}/submitted.sh; echo Submitted batch job 7'}
    for name, does in commands.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{does}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    runs = study(tmp_path, "dense", "asni-1", "gmp").runs
    jobs = Slurm(tmp_path / "slurm", partition="gpu", minutes=60, options={"gres": "gpu:1"})(runs, 2)
    asked = {line for line in (tmp_path / "submitted.sh").read_text().splitlines() if line.startswith("#SBATCH")}
    wanted = ["array=0-2%2", "partition=gpu", "time=60", "gres=gpu:1", "requeue"]
    assert asked >= {f"#SBATCH --{option}" for option in wanted}
    assert [job.job.job_id for job in jobs] == ["7_0", "7_1", "7_2"]

"""Real processes side by side."""

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from asni.errors import StoppedError
from asni.studies.processes import Command, run_all, threads_each


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> "list[subprocess.Popen[bytes]]":
    """Every process that is started, seen from outside."""
    seen: list[subprocess.Popen[bytes]] = []

    class Seen(subprocess.Popen):  # type: ignore[type-arg]
        def __init__(self, *arguments: object, **options: object):
            super().__init__(*arguments, **options)  # type: ignore[call-overload]
            seen.append(self)

    monkeypatch.setattr(subprocess, "Popen", Seen)
    return seen


def test_one_that_fails_is_told_in_its_words_and_the_others_go_on(tmp_path: Path) -> None:
    commands = [
        Command("wrong", ("investigate", "mnist-cf"), tmp_path / "wrong" / "log.txt"),
        Command("right", ("--help",), tmp_path / "right" / "log.txt"),
    ]
    seen: list[set[str]] = []
    failures = run_all(commands, 1, seen.append)
    assert list(failures) == ["wrong"]
    assert failures["wrong"].startswith("no recipe 'mnist-cf'; did you mean 'mnist-fc'?")
    assert [names for names in seen if len(names) > 1] == []
    assert {name for names in seen for name in names} == {"wrong", "right"}
    assert seen[-1] == set()


def test_one_that_is_killed_is_told_too(tmp_path: Path, started: "list[subprocess.Popen[bytes]]") -> None:
    command = Command("killed", ("investigate", "digits-fc", "--out", str(tmp_path)), tmp_path / "log.txt")

    def kill(running: set[str]) -> None:
        for process in started:
            process.kill()

    assert run_all([command], 1, kill) == {"killed": "ended by SIGKILL"}


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_no_process_is_left_behind_when_the_user_stops(
    tmp_path: Path, started: "list[subprocess.Popen[bytes]]", stop: signal.Signals
) -> None:
    before = signal.getsignal(signal.SIGTERM)
    commands = [
        Command(name, ("investigate", "digits-fc", "--epochs", "9999", "--out", str(tmp_path)), tmp_path / name)
        for name in ("first", "second", "third")
    ]
    with pytest.raises(StoppedError, match="The same command goes on"):
        run_all(commands, 2, lambda _: os.kill(os.getpid(), stop))
    assert len(started) == 2
    assert all(process.returncode is not None for process in started)
    assert signal.getsignal(signal.SIGTERM) == before


@pytest.mark.parametrize(("jobs", "threads"), [(1, [None]), (2, ["4", "4"])])
def test_few_jobs_share_all_cores_however_many_may_run_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jobs: int, threads: list[str | None]
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(8), raising=False)
    start: Any = subprocess.Popen
    given: list[str | None] = []

    def seen(*arguments: Any, env: dict[str, str], **options: Any) -> Any:
        given.append(env.get("OMP_NUM_THREADS"))
        return start(*arguments, env=env, **options)

    monkeypatch.setattr(subprocess, "Popen", seen)
    run_all([Command(str(job), ("--help",), tmp_path / str(job)) for job in range(jobs)], 8, lambda _: None)
    assert given == threads


def test_threads_of_all_processes_together_are_no_more_than_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(8), raising=False)
    assert [threads_each(at_once) for at_once in (1, 2, 3, 8, 9)] == [8, 4, 2, 1, 1]

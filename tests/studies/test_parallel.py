"""Real processes side by side."""

import os
import signal
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from asni.errors import StoppedError, UsageError
from asni.recipes import load
from asni.runs import names
from asni.studies.overview import Overview
from asni.studies.parallel import LocalProcesses, Parallel, threads_each
from asni.studies.study import PlannedRun, Study


def study(root: Path, *methods: str, seeds: int = 1, epochs: int = 1) -> Study:
    recipe = load("digits-fc").override(epochs=epochs, steps_per_epoch=3)
    return Study({"digits-fc": recipe}, range(seeds), methods, "fp32", root)


class Watched(Overview):
    """Remembers which runs ran side by side, and does something at each look."""

    def __init__(self, runs: list[PlannedRun], act: Callable[[], object] = lambda: None):
        super().__init__(runs, console=Console(quiet=True))
        self.seen: list[list[str]] = []
        self.act = act

    def show(self, running: Iterable[PlannedRun]) -> None:
        self.seen.append([planned.method.name for planned in running])
        self.act()


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


def test_a_run_waits_for_those_that_it_needs_and_a_failure_leaves_the_others(tmp_path: Path) -> None:
    asked = study(tmp_path, "asni-2", "asni-1", "dense", "magnitude-retrain")
    dense = asked.runs[2]
    (dense.run.directory / names.LOCK).mkdir(parents=True)
    watched = Watched(asked.runs)
    failures = Parallel(2, LocalProcesses("cpu")).run(asked.runs, watched)
    assert {planned.method.name for planned in failures} == {"dense", "magnitude-retrain"}
    assert str(dense.run.directory) in failures[dense]
    assert "needs dense" in failures[asked.runs[3]]
    assert [planned.method.name for planned in asked.runs if planned.run.finished] == ["asni-2", "asni-1"]
    assert sorted(watched.seen[0]) == ["asni-1", "dense"]
    assert not any({"asni-1", "asni-2"} <= {*running} for running in watched.seen)


def test_one_that_is_killed_is_named_too(tmp_path: Path, started: "list[subprocess.Popen[bytes]]") -> None:
    runs = study(tmp_path, "dense").runs

    def kill() -> None:
        for process in started:
            process.kill()

    watched = Watched(runs, kill)
    [reason] = Parallel(1, LocalProcesses("cpu")).run(runs, watched).values()
    assert "SIGKILL" in reason


def test_a_request_that_is_wrong_ends_the_study_at_once(
    tmp_path: Path, started: "list[subprocess.Popen[bytes]]"
) -> None:
    recipe = load("digits-fc").override(epochs=9999, batch_size=1501)
    runs = Study({"digits-fc": recipe}, [0], ["dense", "gmp", "snip"], "fp32", tmp_path).runs
    with pytest.raises(UsageError, match="1501"):
        Parallel(1, LocalProcesses("cpu")).run(runs, Watched(runs))
    assert len(started) == 1


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_no_process_is_left_behind_when_the_user_stops(
    tmp_path: Path, started: "list[subprocess.Popen[bytes]]", stop: signal.Signals
) -> None:
    # Under nohup SIGHUP is ignored, and stays so.
    hangup = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    before = signal.getsignal(signal.SIGTERM)
    runs = study(tmp_path, "dense", seeds=3, epochs=9999).runs
    with pytest.raises(StoppedError, match="same command"):
        Parallel(2, LocalProcesses("cpu")).run(runs, Watched(runs, lambda: os.kill(os.getpid(), stop)))
    assert len(started) == 2
    assert all(process.returncode is not None for process in started)
    assert signal.getsignal(signal.SIGTERM) == before
    signal.signal(signal.SIGHUP, hangup)


@pytest.mark.parametrize(("seeds", "threads"), [(1, [None]), (2, ["4", "4"])])
def test_few_runs_share_all_cores_however_many_may_run_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seeds: int, threads: list[str | None]
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(8), raising=False)
    start: Any = subprocess.Popen
    given: list[str | None] = []

    def seen(arguments: Any, *, env: dict[str, str], **options: Any) -> Any:
        given.append(env.get("OMP_NUM_THREADS"))
        return start([*arguments[:3], "asni", "--help"], env=env, **options)

    monkeypatch.setattr(subprocess, "Popen", seen)
    runs = study(tmp_path, "dense", seeds=seeds).runs
    assert Parallel(8, LocalProcesses("cpu")).run(runs, Watched(runs)) == {}
    assert given == threads


def test_threads_of_all_processes_are_no_more_than_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(8), raising=False)
    assert [threads_each(at_once) for at_once in (1, 2, 3, 8, 9)] == [8, 4, 2, 1, 1]

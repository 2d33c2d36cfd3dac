"""Train several runs of a study in parallel, each in an `asni train` process with its own log."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

from asni.errors import StoppedError, UsageError
from asni.files import make_directory
from asni.studies.executors import Failures, blocked_by
from asni.studies.overview import Overview
from asni.studies.study import PlannedRun

POLL_SECONDS = 0.2
USAGE_ERROR = 2
"""The exit status of `asni` for a request that is wrong."""


class Process(Protocol):
    """A process that trains one run, with the interface of `subprocess.Popen`."""

    def poll(self) -> int | None: ...

    def terminate(self) -> None: ...

    def wait(self) -> object: ...


Launch = Callable[[Sequence[PlannedRun], int], Sequence[Process]]
"""Starts a process for each run; the number is how many run in parallel at most."""


@dataclass(frozen=True)
class Parallel:
    """Trains at most `at_once` runs in parallel, each after the runs that it needs."""

    at_once: int
    launch: Launch

    def run(self, runs: Sequence[PlannedRun], overview: Overview) -> Failures:
        """Train the runs; all processes are ended on return or error."""
        try:
            return self._run(list(runs), overview)
        except KeyboardInterrupt:
            raise StoppedError(
                "stopped all processes. Run the same command to resume from the last finished epochs."
            ) from None

    def _run(self, waiting: list[PlannedRun], overview: Overview) -> Failures:
        failures: Failures = {}
        running: dict[PlannedRun, Process] = {}
        at_once = min(self.at_once, len(waiting))
        with _stoppable(running):
            while waiting or running:
                for planned in list(waiting):
                    if why := blocked_by(planned, failures):
                        waiting.remove(planned)
                        failures[planned] = why
                if ready := _ready(waiting, running)[: at_once - len(running)]:
                    waiting = [planned for planned in waiting if planned not in ready]
                    running |= zip(ready, self.launch(ready, at_once), strict=True)
                overview.show(running)
                time.sleep(POLL_SECONDS)
                for planned, status in [(planned, process.poll()) for planned, process in running.items()]:
                    if status is None:
                        continue
                    del running[planned]
                    if status == USAGE_ERROR:
                        # The request itself is wrong, so the other runs would fail too.
                        raise UsageError(reason(planned.log, status))
                    failures |= {planned: reason(planned.log, status)} if status else {}
            overview.list_finished()
        return failures


def _ready(waiting: Sequence[PlannedRun], running: dict[PlannedRun, Process]) -> list[PlannedRun]:
    """The runs that need none of the unfinished ones."""
    return [planned for planned in waiting if not any(planned.depends_on(other) for other in (*waiting, *running))]


@dataclass(frozen=True)
class LocalProcesses:
    """Launches processes on this machine, which share its cores unless `OMP_NUM_THREADS` is set."""

    device: str
    kernels: str = "auto"

    def __call__(self, runs: Sequence[PlannedRun], at_once: int) -> "list[subprocess.Popen[bytes]]":
        threads = threads_each(at_once) if at_once > 1 else None
        return [start(planned, self.device, self.kernels, threads) for planned in runs]


def threads_each(at_once: int) -> int:
    """The number of threads per process with which all processes together use every core once."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores // at_once)


def start(planned: PlannedRun, device: str, kernels: str, threads: int | None = None) -> "subprocess.Popen[bytes]":
    """Start a process that trains a planned run and prints to its log."""
    environment = dict(os.environ)
    if threads is not None:
        environment.setdefault("OMP_NUM_THREADS", str(threads))
    make_directory(planned.log.parent)
    with planned.log.open("wb") as log:
        # -P: do not import modules from the current directory.
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "asni", *planned.arguments(device, kernels)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
            env=environment,
        )


@contextmanager
def _stoppable(running: dict[PlannedRun, Process]) -> Iterator[None]:
    """End the processes when this block is left, even by an error; a killed run can be resumed."""

    def stop(number: int, frame: FrameType | None) -> Any:
        raise KeyboardInterrupt

    # A signal that is ignored, as SIGHUP is under nohup, stays ignored.
    ends = {signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)}
    caught = [each for each in ends if signal.getsignal(each) is not signal.SIG_IGN]
    before = {each: signal.signal(each, stop) for each in caught}
    try:
        yield
    finally:
        for process in running.values():
            process.terminate()
        for process in running.values():
            process.wait()
        for each, handler in before.items():
            signal.signal(each, handler)


def reason(log: Path, status: int) -> str:
    """Why a process failed, from its log: the error message, or the last line of a traceback."""
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()] if log.exists() else []
    errors = [number for number, line in enumerate(lines) if line.startswith("asni: ")]
    if errors:
        return " ".join(lines[errors[-1] :]).removeprefix("asni: ")
    if status < 0:
        return f"killed by {signal.Signals(-status).name}"
    return f"exited with status {status}" + (f" after: {lines[-1]}" if lines else "")

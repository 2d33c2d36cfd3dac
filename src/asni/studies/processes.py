"""Several commands as processes of their own, a few at a time: none prints over another, none ends another."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from asni.errors import AsniError, StoppedError
from asni.files import write_text


@dataclass(frozen=True)
class Command:
    """`asni` with these arguments; what it says goes to its log."""

    name: str
    arguments: tuple[str, ...]
    log: Path

    @property
    def last_line(self) -> str:
        """What it said last."""
        try:
            lines = self.log.read_text(errors="replace").split("\n")
        except OSError:
            return "starts"
        return next((line for line in reversed(lines) if line.strip()), "starts")


def run_all(commands: Sequence[Command], at_once: int, watch: Callable[[set[str]], None]) -> dict[str, str]:
    """Run all of them, at most `at_once` at a time; the names of those that failed, and what they said.

    `watch` is called with the names of the running ones, now and then and at the end. Stopped by an exception, also by
    Ctrl-C or SIGTERM, no process is left behind.
    """
    try:
        return _run_all(commands, at_once, watch)
    except KeyboardInterrupt:
        raise StoppedError(
            "stopped; every process has ended. The same command goes on from the last epochs that were finished."
        ) from None


def failed(failures: Mapping[str, str]) -> AsniError:
    """What to raise when there are any."""
    told = "\n".join(f"  {name}: {message}" for name, message in failures.items())
    return AsniError(f"{len(failures)} of the jobs failed; the same command tries them again.\n{told}")


def _run_all(commands: Sequence[Command], at_once: int, watch: Callable[[set[str]], None]) -> dict[str, str]:
    waiting, failures = list(commands), {}
    at_once = min(at_once, len(commands))  # so that few of them share all cores
    running: dict[Command, subprocess.Popen[bytes]] = {}
    with _stoppable(running):
        while waiting or running:
            while waiting and len(running) < at_once:
                command = waiting.pop(0)
                running[command] = _start(command, at_once)
            watch({command.name for command in running})
            time.sleep(0.2)
            for command in [command for command, process in running.items() if process.poll() is not None]:
                if status := running.pop(command).returncode:
                    failures[command.name] = _message(command.log, status)
        watch(set())
    return failures


def threads_each(at_once: int) -> int:
    """How many threads a process gets so that together they use every core once."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores // at_once)


def _start(command: Command, at_once: int) -> "subprocess.Popen[bytes]":
    environment = dict(os.environ)
    if at_once > 1:
        environment.setdefault("OMP_NUM_THREADS", str(threads_each(at_once)))
    write_text(command.log, "")
    with command.log.open("wb") as log:
        # -P: a file of the current directory must not be taken for a library.
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "asni", *command.arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
            env=environment,
        )


@contextmanager
def _stoppable(running: "dict[Command, subprocess.Popen[bytes]]") -> Iterator[None]:
    """However this ends, the processes end first; a run may be killed at any moment and still goes on later."""

    def stop(number: int, frame: FrameType | None) -> Any:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        for process in running.values():
            process.terminate()
        for process in running.values():
            process.wait()
        signal.signal(signal.SIGTERM, before)


def _message(log: Path, status: int) -> str:
    """What a person needs of the log: the error in words, or the last line of a traceback."""
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    told = [number for number, line in enumerate(lines) if line.startswith("asni: ")]
    if told:
        return " ".join(lines[told[-1] :]).removeprefix("asni: ")
    if status < 0:
        return f"ended by {signal.Signals(-status).name}"
    return lines[-1] if lines else f"ended with status {status}"

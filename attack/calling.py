"""One `asni` command in a process of its own, which may die or hang without harm.

Most are forked from a server that has imported torch already, which takes 20 milliseconds instead of five seconds.
"""

import multiprocessing
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import TypeVar

PRELOADED = [
    "asni.cli",
    "asni.figures",
    "asni.methods.amenable",
    "asni.packing",
    "asni.report",
    "asni.training.trainer",
]
TIMEOUT_SECONDS = 60.0
"""A command of the attack takes less than five seconds; one that takes longer than this hangs."""

_server = multiprocessing.get_context("forkserver")
_server.set_forkserver_preload(PRELOADED)

Prepare = Callable[[], object]
"""Called in the new process before the command, for example to make it die at an exact moment."""

Case = TypeVar("Case")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Answer:
    """What a command printed, and its exit status; a negative one is the signal that ended it, None a hang."""

    status: int | None
    out: str
    err: str

    @property
    def failure(self) -> str | None:
        """What no command may ever do, in one word."""
        if self.status is None:
            return "hang"
        if self.status < 0:
            return "crash"
        return "traceback" if "Traceback (most recent call last)" in self.err else None


def asni(folder: Path, *arguments: str, prepare: Prepare | None = None, environment: Mapping[str, str] = {}) -> Answer:
    """`asni ARGUMENTS` in the given folder, forked."""
    with tempfile.TemporaryDirectory(prefix="asni-attack-") as output:
        out, err = Path(output, "out"), Path(output, "err")
        process = _server.Process(target=_command, args=(folder, arguments, out, err, prepare, dict(environment)))
        process.start()
        status = finish(process)
        return Answer(status, _text(out), _text(err))


def finish(process: ForkServerProcess, seconds: float = TIMEOUT_SECONDS) -> int | None:
    """Wait for the end of a process and return its exit status; None for one that had to be ended."""
    process.join(seconds)
    status = process.exitcode
    if status is None:
        process.kill()
        process.join()
    process.close()
    return status


def forked(function: Callable[..., object], *arguments: object) -> ForkServerProcess:
    """Start a process that calls a function."""
    process = _server.Process(target=function, args=arguments)
    process.start()
    return process


def started(folder: Path, messages: Path, *arguments: str) -> "subprocess.Popen[bytes]":
    """A real `python -m asni`, the leader of a group with all that it starts; `messages` gets its standard error."""
    with messages.open("wb") as file:
        return subprocess.Popen(
            [sys.executable, "-m", "asni", *arguments],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=file,
            start_new_session=True,
        )


def in_parallel(function: Callable[[Case], Result], cases: Iterable[Case]) -> list[Result]:
    """The results in the order of the cases; each case waits for a process of its own, so threads are enough."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(function, cases))


def _command(
    folder: Path, arguments: tuple[str, ...], out: Path, err: Path, prepare: Prepare | None, environment: dict[str, str]
) -> None:
    from asni.cli import main

    redirect(out, err)
    os.chdir(folder)
    os.environ.update(environment)
    if prepare is not None:
        prepare()
    sys.argv = ["asni", *arguments]
    main()


def redirect(out: Path, err: Path) -> None:
    """Let all that this process prints, in C too, go to two files."""
    for number, path in ((1, out), (2, err)):
        file = os.open(path, os.O_WRONLY | os.O_CREAT)
        os.dup2(file, number)
        os.close(file)


def _text(path: Path) -> str:
    return path.read_text(errors="replace") if path.exists() else ""

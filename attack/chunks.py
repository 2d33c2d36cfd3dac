"""Cases that processes take on, many each and within their memory; one that dies loses a single case."""

import os
import resource
from collections.abc import Callable
from functools import partial
from itertools import chain
from pathlib import Path

from attack.calling import finish, forked, in_parallel, redirect
from attack.small_runs import scratch

CHUNK = 40
"""How many cases one process takes on."""

EXTRA_MEMORY = 512 * 2**20
"""What a process may take beyond what it has at its start: twice what a small file may ask for."""

Case = Callable[[int], str]
"""Takes on the case of a number in the current directory, and says how it ended."""


def in_chunks(case: Case, amount: int) -> list[str]:
    """How each case ended; "crash" and "hang" for those that their process did not survive."""
    chunks = [range(start, min(start + CHUNK, amount)) for start in range(0, amount, CHUNK)]
    return list(chain.from_iterable(in_parallel(partial(_chunk, case), chunks)))


def _chunk(case: Case, numbers: range) -> list[str]:
    outcomes: list[str] = []
    with scratch() as folder:
        log = folder / "log"
        while len(outcomes) < len(numbers):
            status = finish(forked(_take_on, case, numbers[len(outcomes) :], folder))
            outcomes += log.read_text().split("\n")[:-1] if log.exists() else []
            log.unlink(missing_ok=True)
            if len(outcomes) < len(numbers):
                outcomes.append("hang" if status is None else "crash")
    return outcomes


def _take_on(case: Case, numbers: range, folder: Path) -> None:
    redirect(folder / "out", folder / "err")
    os.chdir(folder)
    _limit_memory()
    with Path("log").open("a") as log:
        for number in numbers:
            print(case(number), file=log, flush=True)


def _limit_memory() -> None:
    size = Path("/proc/self/statm")
    if size.exists():
        taken = int(size.read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (taken + EXTRA_MEMORY, resource.RLIM_INFINITY))

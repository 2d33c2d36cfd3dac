"""Hostile packed files, tensors, recipes and requests: a reader succeeds or says what is wrong, within its memory.

A packed file gives back the original or nothing.
"""

import os
import random
import resource
import shutil
import sys
from functools import partial
from pathlib import Path

from asni.cli import main
from attack.calling import finish, forked, in_parallel, redirect
from attack.hostile_files import FILE, FOLDER, UNPACK, Target, targets
from attack.outcomes import Tally
from attack.small_runs import scratch, trained_once

CHUNK = 40
"""How many files one process reads; one that dies loses a single case."""

EXTRA_MEMORY = 512 * 2**20
"""What a process may take beyond what it has at its start: twice what a small file may ask for."""


def run(seed: int, amount: int) -> dict[str, int]:
    """Spoilt files of all kinds in turn, each read by one of the commands for it."""
    tally = Tally()
    with scratch() as folder:
        found = targets(trained_once(folder))
        chunks = [range(start, min(start + CHUNK, amount)) for start in range(0, amount, CHUNK)]
        for outcomes in in_parallel(partial(_chunk, seed, found), chunks):
            for case, outcome in outcomes:
                tally.add(case, outcome)
    return tally.counts()


def _chunk(seed: int, found: list[Target], cases: range) -> list[tuple[str, str]]:
    """The outcomes of some cases, read in one process or, if that dies, in more."""
    outcomes: list[str] = []
    with scratch() as folder:
        log = folder / "log"
        while len(outcomes) < len(cases):
            status = finish(forked(_read_all, seed, found, cases[len(outcomes) :], folder))
            outcomes += log.read_text().split("\n")[:-1] if log.exists() else []
            log.unlink(missing_ok=True)
            if len(outcomes) < len(cases):
                outcomes.append("hang" if status is None else "crash")
    return [(_described(seed, found, case), outcome) for case, outcome in zip(cases, outcomes, strict=True)]


def _case(seed: int, found: list[Target], number: int) -> tuple[Target, bytes, tuple[str, ...], str]:
    rng = random.Random(f"readers {seed} {number}")
    target = found[number % len(found)]
    spoil, command = rng.choice(target.spoilers), rng.choice(target.commands)
    return target, spoil(target.path.read_bytes(), rng), command, spoil.__name__


def _described(seed: int, found: list[Target], number: int) -> str:
    target, _, command, spoiler = _case(seed, found, number)
    return f"readers --seed {seed}, case {number}: {spoiler} in {target.path.name}, then {' '.join(command)}"


def _read_all(seed: int, found: list[Target], cases: range, folder: Path) -> None:
    redirect(folder / "out", folder / "err")
    os.chdir(folder)
    _limit_memory()
    with Path("log").open("a") as log:
        for number in cases:
            target, data, command, _ = _case(seed, found, number)
            print(_read(target, data, command), file=log, flush=True)


def _limit_memory() -> None:
    size = Path("/proc/self/statm")
    if size.exists():
        taken = int(size.read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (taken + EXTRA_MEMORY, resource.RLIM_INFINITY))


def _read(target: Target, data: bytes, command: tuple[str, ...]) -> str:
    shutil.rmtree("spoilt", ignore_errors=True)
    shutil.copytree(target.path.parent, "spoilt", ignore=shutil.ignore_patterns("runs", "*.asni"))
    path, made = Path("spoilt", target.path.name), Path("made.safetensors")
    path.write_bytes(data)
    made.unlink(missing_ok=True)
    sys.argv = ["asni", *(word.replace(FILE, str(path)).replace(FOLDER, "spoilt") for word in command)]
    try:
        main()
    except SystemExit as ended:
        if ended.code:
            return "refused"
    except MemoryError:
        return "memory"
    except Exception:
        return "traceback"
    return "other numbers" if command == UNPACK and made.read_bytes() != target.unpacked else "read"

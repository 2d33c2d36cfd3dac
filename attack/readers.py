"""Hostile packed files, tensors, recipes and requests: a reader succeeds or says what is wrong, within its memory.

A packed file gives back the original or nothing.
"""

import random
import shutil
import sys
from functools import partial
from pathlib import Path

from asni.cli import main
from attack.chunks import in_chunks
from attack.hostile_files import FILE, FOLDER, UNPACK, Target, targets
from attack.outcomes import Tally
from attack.small_runs import scratch, trained_once


def run(seed: int, amount: int) -> dict[str, int]:
    """Spoilt files of all kinds in turn, each read by one of the commands for it."""
    tally = Tally()
    with scratch() as folder:
        found = targets(trained_once(folder))
        for number, outcome in enumerate(in_chunks(partial(_read, seed, found), amount)):
            tally.add(_described(seed, found, number), outcome)
    return tally.counts()


def _case(seed: int, found: list[Target], number: int) -> tuple[Target, bytes, tuple[str, ...], str]:
    rng = random.Random(f"readers {seed} {number}")
    target = found[number % len(found)]
    spoil, command = rng.choice(target.spoilers), rng.choice(target.commands)
    return target, spoil(target.path.read_bytes(), rng), command, spoil.__name__


def _described(seed: int, found: list[Target], number: int) -> str:
    target, _, command, spoiler = _case(seed, found, number)
    return f"readers --seed {seed}, case {number}: {spoiler} in {target.path.name}, then {' '.join(command)}"


def _read(seed: int, found: list[Target], number: int) -> str:
    target, data, command, _ = _case(seed, found, number)
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

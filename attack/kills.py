"""Commands killed again and again: at the end every file is as if nothing had happened, and nothing else is left."""

import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from attack.calling import TIMEOUT_SECONDS, Answer, Prepare, asni, in_parallel, started
from attack.made_data import FOLDER, use_made_data, write_made_data
from attack.moments import random_moment
from attack.outcomes import Tally
from attack.small_runs import OUT, RECIPE, STEPS, files_of, leftovers, scratch

MOST_IN_A_ROW = 4


@dataclass(frozen=True)
class Killed:
    """A command, the share of all kills that it gets, and its steps and written files, or that others do its work."""

    name: str
    arguments: tuple[str, ...]
    share: float
    steps: int = 0
    writes: int = 0
    starts_others: bool = False


@dataclass(frozen=True)
class Undisturbed:
    """What a command leaves, and how long it takes."""

    files: dict[str, str]
    seconds: float


COMMANDS = (
    Killed("train", ("train", *RECIPE, "--method", "asni-2", "--out", OUT), 0.5, 2 * STEPS, 30),
    Killed("investigate", ("investigate", *RECIPE, "--out", OUT), 0.2, 4 * STEPS, 70),
    Killed("data get", ("data", "get", "mnist", "--from", FOLDER), 0.2, 0, 1),
    Killed(
        "compare --jobs 2",
        ("compare", *RECIPE, "--methods", "dense,asni-1", "--jobs", "2", "--out", OUT),
        0.05,
        starts_others=True,
    ),
    Killed(
        "train --devices 2",
        ("train", *RECIPE, "--devices", "2", "--device", "cpu", "--out", OUT),
        0.05,
        starts_others=True,
    ),
)


def run(seed: int, amount: int) -> dict[str, int]:
    """So many kills, each followed by the same command, until it is let run to its end."""
    tally, kills = Tally(), dict.fromkeys((f"kills of {command.name}" for command in COMMANDS), 0)
    for command in COMMANDS:
        rng = random.Random(f"kills {seed} {command.name}")
        rows = list(_rows(rng, round(amount * command.share)))
        if not rows:
            continue
        attack = partial(_attack, command, _undisturbed(command), seed)
        numbered = list(enumerate(rows))
        for case, dead, outcome in map(attack, numbered) if command.starts_others else in_parallel(attack, numbered):
            kills[f"kills of {command.name}"] += dead
            tally.add(case, outcome)
    return {"kills": sum(kills.values()), **kills, **tally.counts()}


def _rows(rng: random.Random, kills: int) -> Iterator[int]:
    """Kills in a row, until all are spent."""
    while kills > 0:
        row = min(kills, rng.randint(1, MOST_IN_A_ROW))
        yield row
        kills -= row


def _undisturbed(command: Killed) -> Undisturbed:
    with scratch() as folder:
        write_made_data(folder)
        start = time.monotonic()
        answer = _to_the_end(command, folder)
        assert answer.status == 0, answer.err
        return Undisturbed(files_of(folder), time.monotonic() - start)


def _attack(command: Killed, expected: Undisturbed, seed: int, row: tuple[int, int]) -> tuple[str, int, str]:
    number, kills = row
    case = f"kills --seed {seed}, {command.name}, case {number}, {kills} in a row"
    rng, dead = random.Random(f"{case} {seed}"), 0
    with scratch() as folder:
        write_made_data(folder)
        for _ in range(kills):
            answer = _disturbed(command, folder, rng, expected.seconds)
            if answer.failure in ("hang", "traceback"):
                return case, dead, answer.failure
            dead += answer.status != 0
        outcome, what = _ending(_to_the_end(command, folder), folder, expected.files)
        return f"{case}: {what}", dead, outcome


def _ending(answer: Answer, folder: Path, expected: dict[str, str]) -> tuple[str, str]:
    """How a command that was let run to its end has ended, and what is not as it should be."""
    if answer.failure or answer.status:
        return answer.failure or "unexplained", answer.err
    found = files_of(folder)
    if other := sorted(name for name in expected if found.get(name) != expected[name]):
        return "other numbers", ", ".join(other)
    left = [*leftovers(folder), *(name for name in found if name not in expected)]
    return "leftovers" if left else "identical", ", ".join(left)


def _to_the_end(command: Killed, folder: Path) -> Answer:
    return _group(command, folder, None, 0.0) if command.starts_others else _single(command, folder, None)


def _disturbed(command: Killed, folder: Path, rng: random.Random, seconds: float) -> Answer:
    if command.starts_others:
        return _group(command, folder, rng.choice(["all", "first", "last"]), rng.uniform(0.0, seconds))
    death = random_moment(rng, seconds=seconds, steps=command.steps, writes=command.writes)
    return _single(command, folder, death)


def _single(command: Killed, folder: Path, death: Prepare | None) -> Answer:
    prepare = partial(_prepare, death) if command.name == "data get" else death
    return asni(folder, *command.arguments, prepare=prepare, environment={"ASNI_DATA": str(folder / "data")})


def _prepare(death: Prepare | None) -> None:
    use_made_data()
    if death is not None:
        death()


def _group(command: Killed, folder: Path, victim: str | None, seconds: float) -> Answer:
    """A command that starts other processes; all of them are killed, or the one it began with, or the newest."""
    with scratch() as output:
        messages = output / "messages"
        process = started(folder, messages, *command.arguments)
        try:
            if victim is not None:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(seconds)
                _kill(process.pid, victim)
            status: int | None = process.wait(TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            if victim != "first":
                # What the first one left behind trains on, as after a real kill, and the next one has to wait for it.
                _kill(process.pid, "all")
        return Answer(status, "", messages.read_text(errors="replace"))


def _kill(leader: int, victim: str) -> None:
    with suppress(ProcessLookupError):
        if victim == "all":
            os.killpg(leader, signal.SIGKILL)
        elif victim == "first":
            os.kill(leader, signal.SIGKILL)
        else:
            os.kill(_newest(leader), signal.SIGKILL)


def _newest(leader: int) -> int:
    """The process that was started last; the first one itself where it has started none."""
    children = Path(f"/proc/{leader}/task/{leader}/children")
    found = children.read_text().split() if children.exists() else []
    return int(found[-1]) if found else leader

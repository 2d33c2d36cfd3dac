"""Damage to one file of one run on disk, and whether a command that reads the run tells of it."""

import random
import shutil
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path

from asni.runs import names
from attack.calling import in_parallel
from attack.outcomes import Tally
from attack.reading_commands import OF_EVERY_METHOD, Command, Reading
from attack.small_runs import HOME, OTHER_HOME, copied, scratch
from attack.spoiling import Spoiler, change_digit, cut_end, empty, flip_bit, flip_bits, zero_page

SPOILERS: dict[str, Spoiler] = {
    spoil.__name__: spoil for spoil in (flip_bit, flip_bits, change_digit, zero_page, cut_end, empty)
}
WITHOUT_REQUEST = "another seed's run without"
WAYS = (*SPOILERS, "delete", "another seed's", WITHOUT_REQUEST)


@dataclass(frozen=True)
class Damage:
    """One file of one run, and what happens to it."""

    method: str
    file: str
    way: str

    def __str__(self) -> str:
        return f"{self.way} {self.method}/{self.file}"

    def inflict(self, folder: Path, rng: random.Random) -> None:
        run, other = folder / HOME / self.method, folder / OTHER_HOME / self.method
        path = run / self.file
        if self.way in SPOILERS:
            path.write_bytes(SPOILERS[self.way](path.read_bytes(), rng))
        elif self.way == "delete":
            path.unlink()
        elif self.way == "another seed's":
            shutil.copyfile(other / self.file, path)
        else:
            shutil.rmtree(run)
            shutil.copytree(other, run)
            path.unlink()


def damages(original: Path, methods: Collection[str], files: Collection[str]) -> list[Damage]:
    """Every way to damage every file that is there."""
    return [
        Damage(method, file, way)
        for method, file, way in product(methods, files, WAYS)
        if (original / HOME / method / file).exists() and (file == names.REQUEST or way != WITHOUT_REQUEST)
    ]


def attacked(
    name: str, seed: int, amount: int, original: Path, ways: Sequence[Damage], commands: Sequence[Command]
) -> dict[str, int]:
    """Every damage through every command, in an order that the seed shuffles; as many of them as asked for."""
    rng, every = random.Random(f"{name} {seed}"), list(product(ways, commands))
    cases = [case for _ in range(-(-amount // len(every))) for case in rng.sample(every, len(every))][:amount]
    targets = sorted({_target(damage, command) for damage, command in cases}, key=str)
    expected = dict(in_parallel(partial(_undamaged, original), targets))
    tally = Tally()
    for case, outcome in in_parallel(partial(_attack, f"{name} --seed {seed}", original, expected), enumerate(cases)):
        tally.add(case, outcome)
    return tally.counts()


def _target(damage: Damage, command: Command) -> tuple[Command, str]:
    """What a command is aimed at; some read the runs of all methods."""
    return command, "every" if command in OF_EVERY_METHOD else damage.method


def _undamaged(original: Path, target: tuple[Command, str]) -> tuple[tuple[Command, str], Reading]:
    command, method = target
    with scratch() as folder:
        copied(original, folder)
        return target, command(folder, method)


def _attack(
    name: str,
    original: Path,
    expected: Mapping[tuple[Command, str], Reading],
    numbered: tuple[int, tuple[Damage, Command]],
) -> tuple[str, str]:
    number, (damage, command) = numbered
    with scratch() as folder:
        copied(original, folder)
        damage.inflict(folder, random.Random(f"{name} {number}"))
        outcome = _outcome(command(folder, damage.method), expected[_target(damage, command)], damage)
    return f"{name}, case {number}: {damage}, then {command.__name__}", outcome


def _outcome(found: Reading, expected: Reading, damage: Damage) -> str:
    answer = found.answer
    if answer.failure:
        return answer.failure
    if (answer.status, found.made) == (expected.answer.status, expected.made):
        return "the same numbers"
    told = set(answer.err.splitlines()) - set(expected.answer.err.splitlines())
    if any(damage.file in line or f"seed-0/{damage.method}" in line for line in told):
        return "named"
    return "unexplained" if answer.status else "other numbers"

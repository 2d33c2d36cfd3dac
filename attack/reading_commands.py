"""The commands that read runs, and what each of them makes of them."""

import hashlib
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from attack.calling import Answer, asni
from attack.small_runs import HOME, METHODS, OUT, RECIPE, files_of, numbers


@dataclass(frozen=True)
class Reading:
    """How a command ended, and all that it made of the runs: what it printed and the files it wrote."""

    answer: Answer
    made: object


Command = Callable[[Path, str], Reading]
"""Run in a folder, aimed at the run of a method."""


def train(folder: Path, method: str) -> Reading:
    """Nothing is left to train: prints the result."""
    return _printed(asni(folder, "train", *RECIPE, "--method", method, "--out", OUT, "--json"))


def train_asni_2(folder: Path, method: str) -> Reading:
    """From the weights and the mask of ASNI-I, with its own run gone."""
    shutil.rmtree(folder / HOME / "asni-2", ignore_errors=True)
    answer = asni(folder, "train", *RECIPE, "--method", "asni-2", "--out", OUT, "--json")
    return Reading(answer, (numbers(answer.out), files_of(folder / HOME / "asni-2")))


def pack(folder: Path, method: str) -> Reading:
    return _written(folder, "net.asni", "pack", str(HOME / method))


def pack_amenable(folder: Path, method: str) -> Reading:
    return _written(folder, "net.asni", "pack", "--mode", "amenable", str(HOME / method))


def report(folder: Path, method: str) -> Reading:
    return _written(folder, "report.html", "report", OUT)


def compare(folder: Path, method: str) -> Reading:
    return _printed(asni(folder, "compare", *RECIPE, "--methods", ",".join(METHODS), "--out", OUT, "--json"))


def investigate(folder: Path, method: str) -> Reading:
    """With its figures gone, which it draws again from the runs."""
    shutil.rmtree(folder / HOME / "figures", ignore_errors=True)
    answer = asni(folder, "investigate", *RECIPE, "--out", OUT, "--json")
    return Reading(answer, (numbers(answer.out), files_of(folder / HOME / "figures")))


OF_EVERY_METHOD: tuple[Command, ...] = (train_asni_2, report, compare, investigate)
"""They read the runs of all methods, whichever they are aimed at."""


def train_to_the_end(folder: Path, method: str) -> Reading:
    """Resumes a run: all its final files count."""
    return Reading(train(folder, method).answer, files_of(folder / HOME / method))


def compare_to_the_end(folder: Path, method: str) -> Reading:
    return Reading(compare(folder, method).answer, files_of(folder / HOME / method))


def _printed(answer: Answer) -> Reading:
    return Reading(answer, numbers(answer.out))


def _written(folder: Path, name: str, *arguments: str) -> Reading:
    answer = asni(folder, *arguments, "--out", name)
    made = folder / name
    return Reading(answer, hashlib.sha256(made.read_bytes()).hexdigest() if made.exists() else None)

"""Trainings of several processes at a glance: how far each is, read from its directory, and the time left for all."""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from rich.console import Console, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from asni.runs.run import Job
from asni.studies.study import VARIANTS
from asni.training.progress import summary

SHOWN = ("epoch", "loss", "accuracy", "nonzeros", "seconds")
Entries = list[dict[str, Any]]
_READ: dict[Path, tuple[tuple[int, int], Entries]] = {}


@dataclass(frozen=True)
class Standing:
    """One training: its epochs so far, of how many."""

    recipe: str
    seed: int
    stage: str
    epochs: int
    entries: Entries
    finished: bool

    @property
    def job(self) -> str:
        return f"{self.recipe} seed {self.seed}"

    @property
    def epochs_left(self) -> int:
        return 0 if self.finished else self.epochs - len(self.entries)

    def __str__(self) -> str:
        state = summary(self.entries[-1], self.epochs) if self.entries else "starts"
        return f"{self.job} {self.stage}: {state}"


def standings(job: Job) -> list[Standing]:
    """The four trainings of an investigation, in the order in which they are trained."""
    return [_standing(job, stage) for stage in VARIANTS]


def _standing(job: Job, stage: str) -> Standing:
    directory = job.directory_of(stage)
    finished = (directory / "result.json").exists()
    entries = _entries(directory / "metrics.jsonl")
    return Standing(job.recipe.variant_name, job.seed, stage, job.recipe.training.epochs, entries, finished)


def _entries(path: Path) -> Entries:
    """The epochs so far; asked several times a second, so that only a file that has changed is read again."""
    try:
        stat = path.stat()
        stamp = stat.st_mtime_ns, stat.st_size
        if path not in _READ or _READ[path][0] != stamp:
            _READ[path] = stamp, _parsed(path.read_bytes())
    except OSError:
        return []
    return _READ[path][1]


def _parsed(metrics: bytes) -> Entries:
    try:
        entries = [json.loads(line) for line in metrics.splitlines()]
    except ValueError:
        return []
    # Only shown, never counted on: what a damaged file means is the training's own to say.
    whole = all(isinstance(entry, dict) and all(_is_number(entry.get(key)) for key in SHOWN) for entry in entries)
    return entries if whole else []


def _is_number(value: object) -> bool:
    return isinstance(value, int | float)


def seconds_left(trainings: Sequence[Standing], side_by_side: int) -> float | None:
    """An estimate from the seconds that epochs took, by recipe; None while there is nothing to go by.

    A recipe without an epoch yet is taken to cost what the others cost on average. The trainings of one seed follow
    one another, so it never takes less than the longest seed.
    """
    if not any(each.epochs_left for each in trainings):
        return 0.0
    costs = _seconds_per_epoch(trainings)
    if not costs:
        return None
    average = sum(costs.values()) / len(costs)
    by_job: dict[str, float] = {}
    for each in trainings:
        by_job[each.job] = by_job.get(each.job, 0.0) + each.epochs_left * costs.get(each.recipe, average)
    return max(sum(by_job.values()) / side_by_side, *by_job.values())


def _seconds_per_epoch(trainings: Sequence[Standing]) -> dict[str, float]:
    taken: dict[str, list[float]] = {}
    for each in trainings:
        taken.setdefault(each.recipe, []).extend(entry["seconds"] for entry in each.entries)
    return {recipe: sum(seconds) / len(seconds) for recipe, seconds in taken.items() if seconds}


def in_words(seconds: float | None) -> str:
    """A time left, as exactly as an estimate deserves.

    >>> in_words(None), in_words(42), in_words(5000)
    ('time left not known yet', 'about 42 s left', 'about 1 h 23 min left')
    """
    if seconds is None:
        return "time left not known yet"
    if seconds < 60:
        return f"about {seconds:.0f} s left"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"about {hours} h {minutes} min left" if hours else f"about {minutes} min left"


class Pace:
    """How many methods are trained, of how many, and when all will be if they go on as fast as in this call.

    `results` are the files that stand for a finished method, one for each of its seeds.
    """

    def __init__(self, results: Sequence[Path], clock: Callable[[], float] = time.monotonic):
        self._results, self._clock = results, clock
        self._found = self._told = self._done
        self._start = clock()

    @property
    def _done(self) -> int:
        return sum(result.exists() for result in self._results)

    def __str__(self) -> str:
        done = self._done
        trained, left = done - self._found, len(self._results) - done
        seconds = left * (self._clock() - self._start) / trained if trained > 0 else None
        return f"{done} of {len(self._results)} methods trained, {in_words(seconds)}"

    def news(self) -> str | None:
        """The same, if a method was trained since this was asked before."""
        before, self._told = self._told, self._done
        return str(self) if self._told > before else None


class Board:
    """Lines about what goes on: drawn over and over on a terminal, printed now and then elsewhere."""

    def __init__(self, console: Console | None = None):
        self._console = console or Console(stderr=True)
        self._live = Live(console=self._console, transient=True)
        self._next = 0.0

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def show(self, drawn: RenderableType, lines: Sequence[str]) -> None:
        """What goes on now, as a terminal draws it and as lines."""
        if self._console.is_terminal:
            self._live.update(drawn)
        elif lines and (moment := time.monotonic()) >= self._next:
            self._next = moment + 30.0
            for line in lines:
                self.print(line)

    def print(self, text: str) -> None:
        """A line that stays."""
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)


class Overview(Board):
    """A line for each training that runs, one when it is finished, and the time left for all of them."""

    def __init__(self, at_once: int, console: Console | None = None):
        super().__init__(console)
        self._at_once = at_once
        self._told: set[tuple[str, str]] | None = None

    def update(self, trainings: Sequence[Standing], running: set[str]) -> None:
        """Show how far they are; `running` names the jobs that a process works on."""
        finished = [each for each in trainings if each.finished]
        rest = in_words(seconds_left(trainings, self._at_once))
        overall = f"{len(finished)} of {len(trainings)} trainings done, {rest}"
        self._tell_finished(finished, overall)
        # The first one of a job that is not finished is the one it works on.
        by_job = {each.job: each for each in reversed(trainings) if not each.finished and each.job in running}
        now = [*reversed(by_job.values())]
        self.show(_drawn(now, overall), [f"{each}  [{overall}]" for each in now])

    def _tell_finished(self, finished: Sequence[Standing], overall: str) -> None:
        if self._told is None:
            # Those of an earlier call are counted, not listed.
            self._told = {(each.job, each.stage) for each in finished}
            self.print(overall)
        for each in finished:
            if (each.job, each.stage) not in self._told:
                self._told.add((each.job, each.stage))
                self.print(f"{each}  [{overall}]")


def _drawn(running: Sequence[Standing], overall: str) -> Table:
    lines = Table.grid(padding=(0, 1))
    for each in running:
        lines.add_row(ProgressBar(each.epochs, len(each.entries), width=20), Text(str(each)))
    lines.add_row("", overall)
    return lines

"""How far a study is: a line for each run in progress, one when it is finished, and the time left for all of them."""

import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from rich.console import Console
from rich.live import Live
from rich.text import Text

from asni.runs import names
from asni.studies.study import Task

PLAIN_SECONDS = 30.0
"""Between two looks at runs in progress, where lines are not redrawn."""

Entries = list[dict[str, Any]]
_READ: dict[Path, tuple[tuple[int, int], Entries]] = {}


@dataclass(frozen=True)
class Standing:
    """One run: the epochs of its last round so far, of how many, in how many rounds (None: it depends)."""

    recipe: str
    rounds: int | None
    epochs: int
    entries: Entries
    finished: bool

    @property
    def epochs_left(self) -> int:
        return 0 if self.finished else (self.rounds or 1) * self.epochs - len(self.entries)


def standing(task: Task) -> Standing:
    """Read from the run's directory; asked several times a second, so only a file that has changed is read again."""
    directory, recipe = task.run.directory, task.experiment.recipe
    finished = (directory / names.RESULT).exists()
    entries = _entries(directory / names.METRICS)
    return Standing(recipe.variant_name, task.method.rounds, recipe.training.epochs, entries, finished)


def _entries(path: Path) -> Entries:
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
    # Only shown, never counted on: a damaged file is the training's own to report.
    sound = all(isinstance(entry, dict) and isinstance(entry.get("seconds"), int | float) for entry in entries)
    return entries if sound else []


def seconds_left(standings: Sequence[Standing], at_once: int) -> float | None:
    """An estimate from the seconds that epochs took, by recipe; None while there is nothing to go by.

    A recipe without an epoch yet is taken to cost what the others cost on average.
    """
    if not any(each.epochs_left for each in standings):
        return 0.0
    costs = _seconds_per_epoch(standings)
    if not costs:
        return None
    average = sum(costs.values()) / len(costs)
    left = [each.epochs_left * costs.get(each.recipe, average) for each in standings]
    return max(sum(left) / at_once, *left)


def _seconds_per_epoch(standings: Iterable[Standing]) -> dict[str, float]:
    taken: dict[str, list[float]] = {}
    for each in standings:
        taken.setdefault(each.recipe, []).extend(entry["seconds"] for entry in each.entries)
    return {recipe: sum(seconds) / len(seconds) for recipe, seconds in taken.items() if seconds}


def in_words(seconds: float | None, *, at_least: bool = False) -> str:
    """A time left, as exactly as an estimate deserves.

    >>> in_words(None), in_words(42), in_words(5000, at_least=True)
    ('time left unknown', 'about 42 s left', 'more than 1 h 23 min left')
    """
    if seconds is None:
        return "time left unknown"
    about = "more than" if at_least and seconds else "about"
    if seconds < 60:
        return f"{about} {seconds:.0f} s left"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{about} {hours} h {minutes} min left" if hours else f"{about} {minutes} min left"


class Overview:
    """Drawn over and over on a terminal, printed now and then elsewhere; on the error stream, as all progress is."""

    def __init__(self, tasks: Sequence[Task], at_once: int = 1, console: Console | None = None, *, quiet: bool = False):
        self._tasks, self._at_once = tasks, at_once
        self._console = console or Console(stderr=True, quiet=quiet)
        self._live = Live(console=self._console, transient=True)
        self._next = 0.0
        # Those of an earlier call are counted, not listed.
        self._listed = {task for task in tasks if standing(task).finished}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def __str__(self) -> str:
        standings = [standing(task) for task in self._tasks]
        unknown = any(each.rounds is None and not each.finished for each in standings)
        left = in_words(seconds_left(standings, self._at_once), at_least=unknown)
        return f"{sum(each.finished for each in standings)} of {len(standings)} runs done, {left}"

    def list_finished(self) -> None:
        """A line for each run that was finished since this was called before."""
        for task in self._tasks:
            if task not in self._listed and standing(task).finished:
                self._listed.add(task)
                result = task.run.result
                self._print(f"{task}: accuracy {result['accuracy']:.2f}, nonzeros {result['nonzeros']:,}  [{self}]")

    def show(self, running: Iterable[Task]) -> None:
        """What runs now, by the last line of each log."""
        self.list_finished()
        lines = [f"{task}: {last_line(task.log)}" for task in running]
        if self._console.is_terminal:
            self._live.start()
            self._live.update(Text("\n".join([*lines, str(self)]), no_wrap=True, overflow="ellipsis"))
        elif lines and (moment := time.monotonic()) >= self._next:
            self._next = moment + PLAIN_SECONDS
            for line in lines:
                self._print(f"{line}  [{self}]")

    def _print(self, text: str) -> None:
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)


def last_line(log: Path) -> str:
    """What a process printed last."""
    try:
        lines = log.read_text(errors="replace").split("\n")
    except OSError:
        return "starting"
    return next((line for line in reversed(lines) if line.strip()), "starting")

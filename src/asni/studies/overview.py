"""The progress of a study: a line for each run in progress, one when it is finished, and the time left for all runs."""

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
"""Time between two progress lines of a run where the output is not a terminal."""

Entries = list[dict[str, Any]]
_READ: dict[Path, tuple[tuple[int, int], Entries]] = {}


@dataclass(frozen=True)
class Standing:
    """The progress of one run: the metrics of its last round so far, epochs per round, and rounds (None: unknown)."""

    recipe: str
    rounds: int | None
    epochs: int
    entries: Entries
    finished: bool

    @property
    def epochs_left(self) -> int:
        return 0 if self.finished else (self.rounds or 1) * self.epochs - len(self.entries)


def standing(task: Task) -> Standing:
    """Read a run's progress from its directory; called several times a second, so only changed files are read."""
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
    # Only for display: the training itself reports a damaged file.
    sound = all(isinstance(entry, dict) and isinstance(entry.get("seconds"), int | float) for entry in entries)
    return entries if sound else []


def seconds_left(standings: Sequence[Standing], at_once: int) -> float | None:
    """Estimate the time left from the duration of finished epochs, by recipe; None if no epoch is finished.

    For a recipe without a finished epoch, the average of the others is used.
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
    """Format an estimate of the time left.

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
    """Shows progress on stderr: redrawn continuously on a terminal, printed from time to time elsewhere."""

    def __init__(self, tasks: Sequence[Task], at_once: int = 1, console: Console | None = None, *, quiet: bool = False):
        self._tasks, self._at_once = tasks, at_once
        self._console = console or Console(stderr=True, quiet=quiet)
        self._live = Live(console=self._console, transient=True)
        self._next = 0.0
        # Runs finished by an earlier command are counted, not listed.
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
        """Print a line for each run that finished since the last call."""
        for task in self._tasks:
            if task not in self._listed and standing(task).finished:
                self._listed.add(task)
                result = task.run.result
                self._print(f"{task}: accuracy {result['accuracy']:.2f}, nonzeros {result['nonzeros']:,}  [{self}]")

    def show(self, running: Iterable[Task]) -> None:
        """Show the last log line of each running task."""
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
    """The last line that a process printed."""
    try:
        lines = log.read_text(errors="replace").split("\n")
    except OSError:
        return "starting"
    return next((line for line in reversed(lines) if line.strip()), "starting")

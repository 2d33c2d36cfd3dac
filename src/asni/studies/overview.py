"""The progress of a study: a line for each run in progress, one when it is finished, and the time left for all runs."""

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.text import Text

from asni.errors import AsniError
from asni.runs import names, reading
from asni.studies.study import PlannedRun

PLAIN_SECONDS = 30.0
"""Time between two progress lines of a run where the output is not a terminal."""

_READ: dict[Path, tuple[tuple[int, int], tuple[float, ...]]] = {}


@dataclass(frozen=True)
class RunProgress:
    """The progress of one run: seconds of each finished epoch of its last round, epochs per round, rounds (or None)."""

    recipe: str
    rounds: int | None
    epochs: int
    seconds: tuple[float, ...]
    finished: bool

    @property
    def epochs_left(self) -> int:
        return 0 if self.finished else (self.rounds or 1) * self.epochs - len(self.seconds)


def progress_of(planned: PlannedRun) -> RunProgress:
    """Read a run's progress from its directory; called several times a second, so only changed files are read."""
    directory, recipe = planned.run.directory, planned.experiment.recipe
    finished = (directory / names.RESULT).exists()
    return RunProgress(
        recipe.variant_name, planned.method.rounds, recipe.training.epochs, _epoch_seconds(directory), finished
    )


def _epoch_seconds(directory: Path) -> tuple[float, ...]:
    try:
        stat = (directory / names.METRICS).stat()
        stamp = stat.st_mtime_ns, stat.st_size
        if directory not in _READ or _READ[directory][0] != stamp:
            seconds = map(float, reading.metrics(directory).get("seconds", ()))
            _READ[directory] = stamp, tuple(filter(math.isfinite, seconds))
    except (OSError, AsniError):
        # Only for display: the training itself reports a damaged file.
        return ()
    return _READ[directory][1]


def seconds_left(runs: Sequence[RunProgress], at_once: int) -> float | None:
    """Estimate the time left from the duration of finished epochs, by recipe; None if no epoch is finished.

    For a recipe without a finished epoch, the average of the others is used.
    """
    if not any(each.epochs_left for each in runs):
        return 0.0
    costs = _seconds_per_epoch(runs)
    if not costs:
        return None
    average = sum(costs.values()) / len(costs)
    left = [each.epochs_left * costs.get(each.recipe, average) for each in runs]
    return max(sum(left) / at_once, *left)


def _seconds_per_epoch(runs: Iterable[RunProgress]) -> dict[str, float]:
    taken: dict[str, list[float]] = {}
    for each in runs:
        taken.setdefault(each.recipe, []).extend(each.seconds)
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

    def __init__(
        self, runs: Sequence[PlannedRun], at_once: int = 1, console: Console | None = None, *, quiet: bool = False
    ):
        self._runs, self._at_once = runs, at_once
        self._console = console or Console(stderr=True, quiet=quiet)
        self._live = Live(console=self._console, transient=True)
        self._next = 0.0
        # Runs finished by an earlier command are counted, not listed.
        self._listed = {planned for planned in runs if progress_of(planned).finished}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def __str__(self) -> str:
        runs = [progress_of(planned) for planned in self._runs]
        done = f"{sum(each.finished for each in runs)} of {len(runs)} runs done"
        if all(each.finished for each in runs):
            return done
        unknown = any(each.rounds is None and not each.finished for each in runs)
        return f"{done}, {in_words(seconds_left(runs, self._at_once), at_least=unknown)}"

    def list_finished(self) -> None:
        """Print a line for each run that finished since the last call."""
        for planned in self._runs:
            if planned not in self._listed and progress_of(planned).finished:
                self._listed.add(planned)
                result = planned.run.result
                self._print(f"{planned}: accuracy {result['accuracy']:.2f}, nonzeros {result['nonzeros']:,}  [{self}]")

    def show(self, running: Iterable[PlannedRun]) -> None:
        """Show the last log line of each running run."""
        self.list_finished()
        lines = [f"{planned}: {last_line(planned.log)}" for planned in running]
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

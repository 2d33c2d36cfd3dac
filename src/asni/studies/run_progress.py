"""How far the runs of a study are, read from their files, and how long the rest will take."""

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from asni.display import duration
from asni.errors import AsniError
from asni.runs import names, reading
from asni.studies.study import PlannedRun


@dataclass(frozen=True)
class Epochs:
    """The finished epochs of a training: the seconds of each, the last one, and when it was recorded."""

    seconds: tuple[float, ...] = ()
    last: Mapping[str, float] | None = None
    recorded: float = 0.0

    @property
    def since(self) -> float:
        """The time spent in the epoch in progress, if the training runs; no more than an epoch took so far."""
        return min(max(time.time() - self.recorded, 0.0), self.average)

    @property
    def average(self) -> float:
        return sum(self.seconds) / len(self.seconds) if self.seconds else 0.0


SHOWN = {"epoch", "accuracy", "nonzeros", "loss"}

_READ: dict[Path, tuple[tuple[int, int], Epochs]] = {}


@dataclass(frozen=True)
class RunProgress:
    """The progress of one run: seconds of each finished epoch of its last round, epochs per round, rounds (or None).

    `since` is the time that a running run has spent in its current epoch.
    """

    recipe: str
    rounds: int | None
    epochs: int
    seconds: tuple[float, ...]
    finished: bool
    since: float = 0.0

    @property
    def epochs_in_all(self) -> int:
        return (self.rounds or 1) * self.epochs

    @property
    def epochs_left(self) -> int:
        return 0 if self.finished else self.epochs_in_all - len(self.seconds)


def progress_of(planned: PlannedRun, *, running: bool = False) -> RunProgress:
    """Read a run's progress from its directory; called several times a second, so only changed files are read."""
    directory, recipe = planned.run.directory, planned.experiment.recipe
    finished, epochs = (directory / names.RESULT).exists(), epochs_of(directory)
    return RunProgress(
        recipe.variant_name,
        planned.method.rounds,
        recipe.training_of(planned.method.name).epochs,
        epochs.seconds,
        finished,
        epochs.since if running and not finished else 0.0,
    )


def epochs_of(directory: Path) -> Epochs:
    """Read the finished epochs of a training; none if its files are damaged."""
    try:
        stat = (directory / names.METRICS).stat()
        stamp = stat.st_mtime_ns, stat.st_size
        if directory not in _READ or _READ[directory][0] != stamp:
            metrics = reading.metrics(directory)
            seconds = tuple(filter(math.isfinite, map(float, metrics.get("seconds", ()))))
            last = {key: float(values[-1]) for key, values in metrics.items()} if metrics.keys() >= SHOWN else None
            _READ[directory] = stamp, Epochs(seconds, last, stat.st_mtime)
    except (OSError, AsniError):
        # Only for display: the training itself reports a damaged file.
        return Epochs()
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
    left = [_cost_left(each, costs[each.recipe]) for each in runs]
    return max(sum(left) / at_once, *left)


def fraction_done(runs: Sequence[RunProgress]) -> float:
    """The share of the whole study's time that is done, as far as it is known how long an epoch takes."""
    costs = _seconds_per_epoch(runs)
    total = sum(each.epochs_in_all * costs.get(each.recipe, 1.0) for each in runs)
    return 1 - sum(_cost_left(each, costs.get(each.recipe, 1.0)) for each in runs) / total


def _cost_left(run: RunProgress, epoch: float) -> float:
    return max(run.epochs_left * epoch - min(run.since, epoch), 0.0)


def _seconds_per_epoch(runs: Iterable[RunProgress]) -> dict[str, float]:
    """By recipe; empty if no epoch is finished."""
    taken: dict[str, list[float]] = {}
    for each in runs:
        taken.setdefault(each.recipe, []).extend(each.seconds)
    known = {recipe: sum(seconds) / len(seconds) for recipe, seconds in taken.items() if seconds}
    return {recipe: known.get(recipe, sum(known.values()) / len(known)) for recipe in taken} if known else {}


def in_words(seconds: float | None, *, at_least: bool = False) -> str:
    """Format an estimate of the time left.

    >>> in_words(None), in_words(42), in_words(5000, at_least=True)
    ('time left unknown', 'about 42 s left', 'more than 1 h 23 min left')
    """
    if seconds is None:
        return "time left unknown"
    return f"{'more than' if at_least and seconds else 'about'} {duration(seconds)} left"

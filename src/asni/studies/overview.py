"""The progress of a study: which runs are in progress, which are finished, and the time left for all of them."""

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from rich.console import Console

from asni.display import Display, Row, on_stderr, time_left
from asni.errors import printable
from asni.runs import names
from asni.runs.run import Experiment
from asni.studies.run_progress import epochs_of, fraction_done, in_words, progress_of, seconds_left
from asni.studies.study import PlannedRun
from asni.training.progress import ended, facts

PLAIN_SECONDS = 30.0
"""Time between two progress lines of a run where the output is not a terminal."""

LOOK_SECONDS = 0.5
"""Time between two looks at the files of a study on a terminal."""

MOST_NUMBERED = 4


class Overview:
    """Shows progress on stderr: redrawn continuously on a terminal, printed from time to time elsewhere."""

    def __init__(self, runs: Sequence[PlannedRun], at_once: int = 1, console: Console | None = None):
        self.display = on_stderr() if console is None else Display(console)
        self._runs, self._at_once = runs, at_once
        self._running: Sequence[PlannedRun] = ()
        self._elsewhere = False
        self._next_line = self._next_look = 0.0
        self._rows: Sequence[Row] = ()
        # Runs finished by an earlier command are counted, not listed.
        self._listed = {planned for planned in runs if progress_of(planned).finished}

    @contextmanager
    def shown(self) -> Iterator[Self]:
        """Show the study on a terminal as long as the block runs."""
        with self.display.showing(self._look):
            yield self

    def begin(self, planned: PlannedRun) -> None:
        """This process trains the run and shows its progress; here, it is only numbered."""
        self._running, self._next_look = [planned], 0.0

    def show(self, running: Iterable[PlannedRun]) -> None:
        """Show the progress of runs that other processes train."""
        self.list_finished()
        if (now := [*running]) != self._running:
            self._running, self._elsewhere, self._next_look = now, True, 0.0
        if self._running and not self.display.draws and (moment := time.monotonic()) >= self._next_line:
            self._next_line = moment + PLAIN_SECONDS
            for planned in self._running:
                self._print(f"{planned}: {last_line(planned.log)}  [{self}]")

    def list_finished(self) -> None:
        """Print a line for each run that finished since the last call."""
        for planned in self._runs:
            if planned not in self._listed and progress_of(planned).finished:
                self._listed.add(planned)
                result = planned.run.result
                if self.display.draws:
                    name = f"{self.about(planned.experiment)}{planned.method.name}"
                    self.display.line(name, ended(result, sum(run.result["seconds"] for run in planned.trainings)))
                else:
                    numbers = f"accuracy {result['accuracy']:.2f}, nonzeros {result['nonzeros']:,}"
                    self._print(f"{planned}: {numbers}  [{self}]")

    def about(self, experiment: Experiment) -> str:
        """What tells the trainings of an experiment from the others of this study."""
        others = [planned.experiment for planned in self._runs]
        recipe = any(other.recipe.variant_name != experiment.recipe.variant_name for other in others)
        seed = any(other.seed != experiment.seed for other in others)
        return f"{experiment.recipe.variant_name} " * recipe + f"seed {experiment.seed} " * seed

    def __str__(self) -> str:
        runs = [progress_of(planned) for planned in self._runs]
        done = f"{sum(each.finished for each in runs)} of {len(runs)} runs done"
        if all(each.finished for each in runs):
            return done
        unknown = any(each.rounds is None and not each.finished for each in runs)
        return f"{done}, {in_words(seconds_left(runs, self._at_once), at_least=unknown)}"

    def _look(self) -> Sequence[Row]:
        if (moment := time.monotonic()) >= self._next_look:
            self._next_look = moment + LOOK_SECONDS
            trained_elsewhere = self._running if self._elsewhere else ()
            self._rows = [*map(self._run_row, trained_elsewhere), self._study_row()]
        return self._rows

    def _run_row(self, planned: PlannedRun) -> Row:
        """The training in progress of a run, by its files: a method may take several."""
        said = last_line(planned.log)
        home, stage = planned.experiment.home, said.partition(":")[0]
        if not (stage.isprintable() and "/" not in stage and (home / stage / names.REQUEST).is_file()):
            stage = planned.method.name
        label = f"{self.about(planned.experiment)}{stage}"
        found, epochs = epochs_of(home / stage), planned.experiment.recipe.training_of(stage).epochs
        if found.last is None or not found.average:
            return Row(label, 0.0, time_left(None), [printable(said)])
        left = max((epochs - found.last["epoch"] - 1) * found.average - found.since, 0.0)
        return Row(label, 1 - left / (epochs * found.average), time_left(left), facts(found.last, epochs))

    def _study_row(self) -> Row:
        running = {*self._running}
        runs = [progress_of(planned, running=planned in running) for planned in self._runs]
        unknown = any(each.rounds is None and not each.finished for each in runs)
        left = time_left(seconds_left(runs, self._at_once), at_least=unknown)
        return Row(self._numbers(), fraction_done(runs), left, [f"{sum(each.finished for each in runs)} done"])

    def _numbers(self) -> str:
        """Which of how many runs are in progress."""
        numbers = [str(number) for number, planned in enumerate(self._runs, 1) if planned in self._running]
        if not 0 < len(numbers) <= MOST_NUMBERED:
            return f"{len(numbers)} of {len(self._runs)} runs"
        return f"run{'s' * (len(numbers) > 1)} {', '.join(numbers)} of {len(self._runs)}"

    def _print(self, text: str) -> None:
        self.display.console.print(text, highlight=False, markup=False, soft_wrap=True)


def last_line(log: Path) -> str:
    """The last line that a process printed."""
    try:
        lines = log.read_text(errors="replace").split("\n")
    except OSError:
        return "starting"
    return next((line for line in reversed(lines) if line.strip()), "starting")

"""The progress of a training: a bar with the time left on a terminal, plain lines elsewhere."""

import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from rich.console import Console
from rich.progress import BarColumn, TaskID, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress

from asni.errors import SparsityWarning


class Bar(Protocol):
    """Receives the progress of a training while it runs."""

    def step(self) -> None: ...

    def epoch(self, entry: Mapping[str, Any]) -> None: ...


class Progress:
    """Prints progress to stderr, so that stdout holds only results."""

    def __init__(self, console: Console | None = None, *, quiet: bool = False):
        self.console = console or Console(stderr=True, quiet=quiet)

    @contextmanager
    def training(self, stage: str, epochs: int, steps: int, done: int) -> Iterator[Bar]:
        """The bar of one round of training up to epoch `epochs`; `done` of its `steps` were trained earlier."""
        if done:
            self.note(stage, f"resuming after step {done:,} of {steps:,}")
        if not self.console.is_terminal:
            yield PlainLines(self.console, stage, epochs)
            return
        with RichProgress(
            TextColumn("{task.description:<10}"),
            BarColumn(),
            TaskProgressColumn(),
            TimeRemainingColumn(elapsed_when_finished=True),
            TextColumn("{task.fields[note]}"),
            console=self.console,
        ) as bars:
            yield TerminalBar(bars, bars.add_task(stage, total=steps, completed=done, note=""), epochs)

    def already_done(self, stage: str, directory: Path) -> None:
        self.note(stage, f"already done, in {directory}")

    def note(self, stage: str, text: str) -> None:
        """Print a line about a training."""
        self.console.print(f"{stage}: {text}", soft_wrap=True, highlight=False, markup=False)

    @contextmanager
    def warnings(self, stage: str) -> Iterator[None]:
        """Print the warnings of a pruner as lines of their own, wherever a bar is drawn."""

        def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
            if issubclass(category, SparsityWarning):
                self.note(stage, str(message))
            else:
                elsewhere(message, category, *where, **more)

        with warnings.catch_warnings():
            warnings.simplefilter("always", SparsityWarning)
            elsewhere, warnings.showwarning = warnings.showwarning, show
            yield


def summary(entry: Mapping[str, Any], epochs: int) -> str:
    """One epoch in one line."""
    return (
        f"epoch {entry['epoch'] + 1}/{epochs}  loss {entry['loss']:.4f}  accuracy {entry['accuracy']:.2f}  "
        f"nonzeros {entry['nonzeros']:,}"
    )


class TerminalBar:
    """A bar on a terminal, redrawn ten times a second at most: a step may take less than a redraw."""

    def __init__(self, bars: RichProgress, task: TaskID, epochs: int):
        self._bars, self._task, self._epochs = bars, task, epochs
        self._pending, self._next = 0, 0.0

    def step(self) -> None:
        self._pending += 1
        if (now := time.monotonic()) >= self._next:
            self._bars.advance(self._task, self._pending)
            self._pending, self._next = 0, now + 0.1

    def epoch(self, entry: Mapping[str, Any]) -> None:
        self._bars.advance(self._task, self._pending)
        self._pending = 0
        self._bars.update(self._task, note=summary(entry, self._epochs))


class PlainLines:
    """A line every few seconds and one at the end, for a log file."""

    def __init__(self, console: Console, stage: str, epochs: int):
        self._console, self._stage, self._epochs = console, stage, epochs
        self._next = 0.0

    def step(self) -> None:
        """Prints nothing: a log shows epochs only."""

    def epoch(self, entry: Mapping[str, Any]) -> None:
        last = entry["epoch"] + 1 == self._epochs
        if last or (now := time.monotonic()) >= self._next:
            self._next = 0.0 if last else now + 5.0
            self._console.print(f"{self._stage}: {summary(entry, self._epochs)}", highlight=False, soft_wrap=True)

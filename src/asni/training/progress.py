"""The progress of a training: a row with the time left on a terminal, plain lines elsewhere."""

import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from rich.console import Console

from asni.display import Counter, Display, Row, duration, on_stderr
from asni.errors import SparsityWarning

PLAIN_SECONDS = 5.0
"""Time between two lines of a training where the output is not a terminal."""

NOTICED_SECONDS = 0.5
"""An evaluation that takes less is not worth a word."""

_OPTIONS = {
    'score="lamp"': "--score lamp",
    "floor=0.01": "floor = 0.01 in [pruning]",
    "exclude=": "exclude in [pruning]",
}


class Bar(Protocol):
    """Receives the progress of a training while it runs."""

    def step(self) -> None: ...

    def evaluating(self) -> None: ...

    def epoch(self, entry: Mapping[str, Any]) -> None: ...


class Progress:
    """Prints progress to stderr, so that stdout holds only results. `about` tells the trainings of a study apart."""

    def __init__(self, console: Console | None = None, *, about: str = ""):
        self.display = on_stderr() if console is None else Display(console)
        self._about = about

    @contextmanager
    def training(self, stage: str, epochs: int, steps: int, done: int, seconds: float = 0.0) -> Iterator[Bar]:
        """The bar of one round of training up to epoch `epochs`; `done` of its `steps` took `seconds` earlier."""
        if done:
            self.note(stage, f"resuming after step {done:,} of {steps:,}")
        if not self.display.draws:
            yield PlainLines(self.display.console, stage, epochs)
            return
        bar = TerminalBar(f"{self._about}{stage}", epochs, Counter(steps, done), seconds)
        with self.display.showing(bar.rows):
            yield bar
        if bar.last is not None:
            self.display.line(bar.label, ended(bar.last, bar.seconds))

    def already_done(self, stage: str, directory: Path) -> None:
        self.note(stage, f"already done, in {directory}")

    def note(self, stage: str, text: str) -> None:
        """Print a line about a training."""
        self.display.say(f"{self._about}{stage}: {text}")

    @contextmanager
    def warnings(self, stage: str) -> Iterator[None]:
        """Print the warnings of a pruner as lines of their own, wherever a bar is drawn."""

        def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
            if issubclass(category, SparsityWarning):
                self.note(stage, in_options(str(message)))
            else:
                elsewhere(message, category, *where, **more)

        with warnings.catch_warnings():
            warnings.simplefilter("always", SparsityWarning)
            elsewhere, warnings.showwarning = warnings.showwarning, show
            yield


def facts(entry: Mapping[str, Any], epochs: int) -> list[str]:
    """One epoch, what matters most first."""
    return [
        f"epoch {entry['epoch'] + 1:>{len(str(epochs))}.0f}/{epochs}",
        f"{entry['accuracy']:.2f} %",
        f"{entry['nonzeros']:,.0f} nonzeros",
        f"loss {entry['loss']:.4f}",
    ]


def ended(result: Mapping[str, Any], seconds: float) -> list[str]:
    """A finished training, what matters most first."""
    time = f"{seconds:.1f} s" if seconds < 9.95 else duration(seconds)
    return [f"{result['accuracy']:.2f} %", f"{result['nonzeros']:,} nonzeros", f"in {time}"]


def in_options(text: str) -> str:
    """The advice of a pruner, which names arguments of Python, in the words of the command line.

    >>> in_options('Keep some with floor=0.01, rank with score="lamp", or leave layers out with exclude=.')
    'Keep some with floor = 0.01 in [pruning], rank with --score lamp, or leave layers out with exclude in [pruning].'
    """
    for argument, option in _OPTIONS.items():
        text = text.replace(argument, option)
    return text


def summary(entry: Mapping[str, Any], epochs: int) -> str:
    """One epoch in one line."""
    return (
        f"epoch {entry['epoch'] + 1}/{epochs}  loss {entry['loss']:.4f}  accuracy {entry['accuracy']:.2f}  "
        f"nonzeros {entry['nonzeros']:,}"
    )


class TerminalBar:
    """A row of the display."""

    def __init__(self, label: str, epochs: int, counter: Counter, seconds: float):
        self.label, self.epochs, self.counter, self.seconds = label, epochs, counter, seconds
        self.last: Mapping[str, Any] | None = None
        self._evaluates_since: float | None = None

    def rows(self) -> Sequence[Row]:
        since = self._evaluates_since
        if since is not None and time.monotonic() - since > NOTICED_SECONDS:
            shown = ["evaluating"]
        else:
            shown = [] if self.last is None else facts(self.last, self.epochs)
        return [self.counter.row(self.label, shown)]

    def step(self) -> None:
        self.counter.done += 1

    def evaluating(self) -> None:
        self._evaluates_since = time.monotonic()

    def epoch(self, entry: Mapping[str, Any]) -> None:
        self.last, self._evaluates_since = entry, None
        self.seconds += entry["seconds"]


class PlainLines:
    """A line every few seconds and one at the end, for a log file."""

    def __init__(self, console: Console, stage: str, epochs: int):
        self._console, self._stage, self._epochs = console, stage, epochs
        self._next = 0.0

    def step(self) -> None:
        """Prints nothing: a log shows epochs only."""

    def evaluating(self) -> None:
        """Prints nothing either."""

    def epoch(self, entry: Mapping[str, Any]) -> None:
        last = entry["epoch"] + 1 == self._epochs
        if last or (now := time.monotonic()) >= self._next:
            self._next = 0.0 if last else now + PLAIN_SECONDS
            self._console.print(f"{self._stage}: {summary(entry, self._epochs)}", highlight=False, soft_wrap=True)

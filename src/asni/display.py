"""What is going on, on standard error: rows that are redrawn on a terminal and vanish at the end; nothing elsewhere.

A process has one display, so that a download inside a training inside a study never draws over another one.
"""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import zip_longest
from typing import TypeVar

from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.text import Text

from asni.errors import printable

Item = TypeVar("Item")
LEAST_BAR, MOST_BAR = 6, 30
_GAP = "  "
_REDRAWN = 10.0  # times a second
_YEAR = 365 * 86400
_TURNS, _ASCII_TURNS = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏", "|/-\\"


@dataclass(frozen=True)
class Row:
    """One thing that is going on. Where the width is short, the last of the `facts` are left out first.

    `done` is a fraction, and `left` how long the rest takes; without them, the row is a status.
    """

    label: str
    done: float | None = None
    left: str = ""
    facts: Sequence[str] = ()


Rows = Callable[[], Sequence[Row]]
"""What is to be shown now; called for every redraw."""


class Counter:
    """How many of `total` steps are done, and how long the rest takes at the average speed since the start.

    A total of 0 is one that is not known.
    """

    def __init__(self, total: int, done: int = 0):
        self.total, self.done = total, done
        self._before, self._started = done, time.monotonic()

    @property
    def fraction(self) -> float:
        return min(self.done / self.total, 1.0) if self.total else 0.0

    @property
    def seconds(self) -> float:
        """The time since the start."""
        return time.monotonic() - self._started

    @property
    def seconds_left(self) -> float | None:
        done = self.done - self._before
        return self.seconds / done * max(self.total - self.done, 0) if done and self.total else None

    def row(self, label: str, facts: Sequence[str] = ()) -> Row:
        return Row(label, self.fraction, time_left(self.seconds_left), facts)


def duration(seconds: float) -> str:
    """A time in words.

    >>> duration(42), duration(300), duration(5000), duration(200_000), duration(2e6), duration(4e8)
    ('42 s', '5 min', '1 h 23 min', '2 d 8 h', '23 d', '12.7 years')
    """
    minutes, hours = round(seconds / 60), round(seconds / 3600)
    if seconds >= _YEAR:
        return f"{seconds / _YEAR:,.1f} years"
    if hours >= 240:
        return f"{round(hours / 24):,} d"
    if hours >= 24:
        return f"{hours // 24} d {hours % 24} h"
    if minutes >= 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{minutes} min" if seconds >= 59.5 else f"{seconds:.0f} s"


def estimate(seconds: float) -> str:
    """A time of which no more than two digits are known.

    >>> estimate(0.4), estimate(42), estimate(300), estimate(5000), estimate(2e6), estimate(4e8)
    ('0.4 s', '42 s', '5 min', '1.4 h', '23 d', '13 years')
    """
    units = (("years", _YEAR), ("d", 86400), ("h", 3600), ("min", 60), ("s", 1))
    unit, size = next(each for each in units if seconds >= each[1] or each[0] == "s")
    return f"{float(f'{seconds / size:.2g}'):,.15g} {unit}"


def time_left(seconds: float | None, *, at_least: bool = False) -> str:
    """How long something still takes, as short as a row needs it.

    >>> time_left(None), time_left(42), time_left(5000, at_least=True)
    ('-- left', '42 s left', '> 1 h 23 min left')
    """
    return "-- left" if seconds is None else f"{'> ' * bool(at_least and seconds)}{duration(seconds)} left"


def wrapped(text: str, width: int) -> str:
    """Break lines between words; a word that is too long, such as a path, stays whole.

    >>> print(wrapped("its files are in runs/digits-fc/seed-0", 16))
    its files are in
    runs/digits-fc/seed-0
    """
    lines: list[str] = []
    for paragraph in text.split("\n"):
        first, *words = paragraph.split(" ")
        lines.append(first)
        for word in words:
            if cell_len(f"{lines[-1]} {word}") <= width:
                lines[-1] += f" {word}"
            else:
                lines.append(word)
    return "\n".join(lines)


class Display:
    """Draws rows on a terminal, the newest at the top."""

    def __init__(self, console: Console | None = None):
        # A pipe is never drawn on, not even if FORCE_COLOR makes rich take it for a terminal.
        self.console = console or Console(stderr=True, force_terminal=sys.stderr.isatty())
        self._shown: list[Rows] = []
        self._live: Live | None = None
        self._widest = 10  # of the labels of lines so far

    @property
    def draws(self) -> bool:
        """Whether rows are drawn: on a terminal that can redraw them."""
        return self.console.is_terminal and not self.console.is_dumb_terminal and not self.console.quiet

    @contextmanager
    def showing(self, rows: Rows) -> Iterator[None]:
        """Show these rows as long as the block runs."""
        if not self.draws:
            yield
            return
        self._shown.append(rows)
        if self._live is None:
            self._live = Live(
                self,
                console=self.console,
                transient=True,
                refresh_per_second=_REDRAWN,
                # What goes to a file or a pipe must not end up on the terminal.
                redirect_stdout=sys.stdout.isatty(),
            )
            self._live.start()
        self._live.refresh()
        try:
            yield
        finally:
            if self._shown == [rows]:
                self._live.stop()
                self._live = None
            self._shown.remove(rows)

    @contextmanager
    def counting(self, label: str, total: int, fact: Callable[[Counter], str]) -> Iterator[Counter]:
        """Show a bar as long as the block runs, which sets `done` of the counter."""
        counter = Counter(total)
        with self.showing(lambda: [counter.row(label, [fact(counter)])]):
            yield counter

    def status(self, text: str) -> AbstractContextManager[None]:
        """Say what is going on as long as the block runs; a terminal that cannot redraw keeps the line."""
        row = Row(printable(text))
        if self.console.is_dumb_terminal:
            self.say(text)
        return self.showing(lambda: [row])

    def track(self, items: Sequence[Item], label: str) -> Iterator[Item]:
        """Iterate with a bar."""
        with self.counting(label, len(items), lambda counter: f"{counter.done:,} of {counter.total:,}") as counter:
            for item in items:
                yield item
                counter.done += 1

    def line(self, label: str, facts: Sequence[str]) -> None:
        """Print a line that stays, with as many of the facts as fit."""
        self._widest = max(self._widest, cell_len(label))
        parts = [set_cell_size(label, self._widest), *facts]
        while len(parts) > 1 and cell_len(_GAP.join(parts)) > self.console.width:
            parts.pop()
        self.console.print(_GAP.join(parts), soft_wrap=True, highlight=False, markup=False)

    def say(self, text: str) -> None:
        """Print a sentence that stays; a terminal wraps it at words, and never inside a path."""
        text = printable(text)
        shown = wrapped(text, self.console.width) if self.console.is_terminal else text
        self.console.print(Text(shown), soft_wrap=True)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        rows = [row for rows in reversed([*self._shown]) for row in rows()]
        # One column more than the ^C that a terminal adds: a line that it wraps would not be erased.
        width = options.max_width - len("^C") - 1
        yield from drawn(rows, width, console.height, ascii_only=options.ascii_only)


@cache
def on_stderr() -> Display:
    """The display of this process. The command line turns it on: a program that uses the library has its own."""
    display = Display()
    display.console.quiet = True
    return display


def in_megabytes(counter: Counter) -> str:
    """How many bytes are done, of how many if that is known."""
    return f"{counter.done / 1e6:.1f}{f' of {counter.total / 1e6:.1f}' * bool(counter.total)} MB"


def drawn(rows: Sequence[Row], width: int, height: int, *, ascii_only: bool) -> list[Text]:
    """The rows as lines that fit a terminal; of too many, the first ones and the last one."""
    if (hidden := len(rows) - height + 2) > 1 and len(rows) > 2:
        rows = [*rows[: -hidden - 1], Row(f"and {hidden} more"), rows[-1]]
    layout = _layout([row for row in rows if row.done is not None], width)
    turns = _ASCII_TURNS if ascii_only else _TURNS
    turn = turns[int(time.monotonic() * _REDRAWN) % len(turns)]
    return [
        Text(f"{turn} {_cut(row.label, width - 2, ascii_only)}", no_wrap=True)
        if row.done is None
        else _line(row, layout, ascii_only=ascii_only)
        for row in rows
    ]


@dataclass(frozen=True)
class _Layout:
    """The widths of the columns that all rows have in common; 0 for a bar that does not fit."""

    label: int
    bar: int
    left: int
    facts: Sequence[int]


def _layout(rows: Sequence[Row], width: int) -> _Layout:
    """As many facts as fit beside a short bar; then a bar as long as fits; a label is shortened last of all."""
    label = max((cell_len(row.label) for row in rows), default=0)
    left = max((len(row.left) for row in rows), default=0)
    beside_label = len(f"{_GAP}100 %{_GAP}") + left
    rest = width - label - beside_label
    facts: list[int] = []
    for texts in zip_longest(*(row.facts for row in rows), fillvalue=""):
        wide = max(map(cell_len, texts))
        if rest - len(_GAP) - wide < len(_GAP) + LEAST_BAR:
            break
        rest -= len(_GAP) + wide
        facts.append(wide)
    bar = min(rest - len(_GAP), MOST_BAR)
    return _Layout(min(label, width - beside_label), bar if bar >= LEAST_BAR else 0, left, facts)


def _line(row: Row, layout: _Layout, *, ascii_only: bool) -> Text:
    done = row.done or 0.0
    text = Text(set_cell_size(_cut(row.label, layout.label, ascii_only), layout.label), no_wrap=True)
    if layout.bar:
        full, empty = ("=", "-") if ascii_only else ("━", "─")
        filled = int(done * layout.bar)
        text.append(_GAP).append(full * filled, "green").append(empty * (layout.bar - filled), "bright_black")
    text.append(f"{_GAP}{int(100 * done):3d} %{_GAP}{row.left:<{layout.left}}")
    for fact, wide in zip(row.facts, layout.facts, strict=False):
        text.append(f"{_GAP}{set_cell_size(fact, wide)}")
    text.rstrip()
    return text


def _cut(label: str, width: int, ascii_only: bool) -> str:
    """The end of a label that is too long: it holds what differs."""
    if cell_len(label) <= width:
        return label
    mark = "..." if ascii_only else "…"
    while label and cell_len(mark + label) > width:
        label = label[1:]
    return (mark + label)[: max(width, 0)]

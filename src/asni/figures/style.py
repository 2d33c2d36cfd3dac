"""One style for all figures, readable in greyscale and for colour-blind readers, and reproducible files."""

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import IO, Any

import matplotlib
import matplotlib.figure
from matplotlib.axes import Axes

from asni.files import write_atomically
from asni.methods import title

# Okabe and Ito's palette: https://jfly.uni-koeln.de/color/
BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
BLUE, VERMILLION, PURPLE, GREY = "#0072B2", "#D55E00", "#CC79A7", "#7F7F7F"

Dashes = str | tuple[int, tuple[float, ...]]

PAGE_WIDTH = 6.9  # inches: the text width of an A4 or letter page
_RC: dict[Any, Any] = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "legend.handlelength": 2.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "lines.linewidth": 1.3,
    "lines.markersize": 4,
    "hatch.linewidth": 0.6,
    "svg.hashsalt": "asni",
    "svg.fonttype": "path",
}

_UNDATED: dict[str, dict[str, None]] = {"png": {"Software": None}, "svg": {"Date": None}}
"""The formats of files, and what is left out of them so that the bytes depend on the figure alone."""


@dataclass(frozen=True)
class Look:
    """How one series is drawn; series never differ by colour alone."""

    colour: str
    dashes: Dashes
    marker: str


_COLOURS = [BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, BLACK]
_DASHES: list[Dashes] = [
    "-",
    (0, (5, 1.5)),
    (0, (4, 1.2, 1, 1.2)),
    (0, (1, 1)),
    (0, (1, 1.6)),
    (0, (3, 1, 1, 1, 1, 1)),
    (0, (2, 2)),
]
_MARKERS = ["o", "s", "^", "D", "v", "P", "X"]
# Each further cycle of the colours shifts dashes and markers by one: 49 looks, all different.
_LOOKS = [Look(_COLOURS[i % 7], _DASHES[(i + i // 7) % 7], _MARKERS[(i + i // 7) % 7]) for i in range(49)]
_FIXED = {
    "asni-1": _LOOKS[0],
    "dense": _LOOKS[1],
    "asni-2": _LOOKS[2],
    "original": _LOOKS[3],
    "initial": _LOOKS[4],
}


def looks(names: Sequence[str]) -> list[Look]:
    """One look for each name; the paper's variants keep theirs in every figure."""
    taken = [_FIXED[name] for name in names if name in _FIXED]
    free = cycle(look for look in _LOOKS if look not in taken)
    return [_FIXED[name] if name in _FIXED else next(free) for name in names]


def plain(text: str) -> str:
    r"""Escape text for matplotlib, so that a dollar sign does not start a formula.

    >>> plain("x$a$")
    'x\\$a\\$'
    """
    return text.replace("$", r"\$")


def label(name: str) -> str:
    """The legend entry of a series; matplotlib omits those that start with an underscore.

    >>> label("snip"), label("_mine")
    ('SNIP', ' _mine')
    """
    written = plain(title(name))
    return f" {written}" if written.startswith("_") else written


def shortened(name: str, characters: int) -> str:
    """The end of a long name, where layers differ.

    >>> shortened("encoder.block.3.conv", 9)
    '…k.3.conv'
    """
    return name if len(name) <= characters else "…" + name[1 - characters :]


@contextmanager
def applied() -> Iterator[None]:
    """Use the style of these figures instead of the user's matplotlib settings, and restore those afterwards."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        with matplotlib.rc_context(_RC):
            yield


def grid(axes: Axes) -> None:
    """Faint horizontal lines, behind the data."""
    axes.grid(axis="y", color="#E3E3E3", linewidth=0.5)
    axes.set_axisbelow(True)


class Figure(matplotlib.figure.Figure):
    """A figure that a notebook shows, also where pyplot was not imported, which would keep every figure in memory."""

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        drawn = io.BytesIO()
        _draw(self, drawn, "png")
        width, height = (round(100 * inches) for inches in self.get_size_inches())
        return drawn.getvalue(), {"width": width, "height": height}


def save(figure: matplotlib.figure.Figure, path_without_suffix: str | Path) -> list[Path]:
    """Write a figure as PNG and SVG, each atomically; the same figure gives the same bytes.

    >>> from asni import figures
    >>> [path.name for path in figures.save(figures.schedule(epochs=50, sparsity=0.97), "schedule")]
    ['schedule.png', 'schedule.svg']
    """
    stem = Path(path_without_suffix)
    return [_write(figure, stem.with_name(f"{stem.name}.{kind}"), kind) for kind in _UNDATED]


def _write(figure: matplotlib.figure.Figure, path: Path, kind: str) -> Path:
    write_atomically(path, lambda temporary: _draw(figure, temporary, kind))
    return path


def _draw(figure: matplotlib.figure.Figure, file: Path | IO[bytes], kind: str) -> None:
    with applied():
        figure.savefig(file, format=kind, dpi=200, metadata=_UNDATED[kind])

"""The last line of a command: what was achieved, and a command to try next."""

import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from itertools import chain, count
from pathlib import Path
from statistics import mean
from typing import Any

from rich.cells import cell_len

from asni.cli.output import say, terminal_width
from asni.errors import printable
from asni.recipes import Recipe

Result = Mapping[str, Any]


def end(achieved: str, *command: object) -> None:
    """Print what was achieved, and the words of a command of `asni` to try next, in one line if they fit.

    A path with a dash in front is given as a `Path`, so that it is not taken for an option.
    """
    words = [f"./{word}" if isinstance(word, Path) and str(word)[0] == "-" else str(word) for word in command]
    next_step = f"next: {shlex.join([*_program(), *words])}"
    line = f"{achieved}   {next_step}" if achieved else next_step
    width = terminal_width()
    if achieved and width is not None and cell_len(line) > width:
        say(achieved)
        line = next_step
    # Never wrapped at words: it is there to be copied.
    print(printable(line))


def _program() -> list[str]:
    """The words that start this program, as the user can type them here."""
    called = Path(sys.argv[0])
    if called.name == "__main__.py":
        return ["python", "-m", "asni"]
    here = Path.cwd()
    if shutil.which("asni") or called.name != "asni" or not called.exists():
        return ["asni"]
    return [str(called.absolute().relative_to(here) if called.absolute().is_relative_to(here) else called)]


def new_file() -> Path:
    """A name for a packed file that does not exist yet."""
    names = map(Path, chain(["net.asni"], (f"net-{number}.asni" for number in count(2))))
    return next(path for path in names if not path.exists())


def mark(recipe: Recipe, stage: str) -> str:
    """A word of warning if a training was shortened, as in a report; only where torch is loaded anyway."""
    from asni.report.marks import SHORTENED, is_shortened

    return f", {SHORTENED}" * is_shortened(recipe, stage)


def shrunk(sparse: Result, dense: Result | None = None) -> str:
    """What a sparse training achieved, beside the dense one of the same seed if there is one.

    >>> sparse = {"nonzeros": 2920, "total_sparsity": 1 - 2920 / 50610, "accuracy": 92.26}
    >>> shrunk(sparse)
    '50,610 -> 2,920 weights (17x), 92.26 %'
    >>> shrunk(sparse, {"accuracy": 92.59})
    '50,610 -> 2,920 weights (17x), 92.59 -> 92.26 %'
    """
    before = round(sparse["nonzeros"] / (1 - sparse["total_sparsity"]))
    weights = f"{before:,} -> {sparse['nonzeros']:,} weights ({times(before, sparse['nonzeros'])})"
    before_pruning = "" if dense is None else f"{dense['accuracy']:.2f} -> "
    return f"{weights}, {before_pruning}{sparse['accuracy']:.2f} %"


def best(lines: Sequence[Result]) -> str:
    """The most accurate sparse method of a comparison, beside dense if that was compared too."""
    sparse = [line for line in lines if line["total_sparsity"]]
    if not sparse:
        return f"dense: {lines[0]['accuracy']:.2f} %"
    first = max(sparse, key=lambda line: line["accuracy"])
    among = f"best of {len(sparse)} sparse methods: " if len(sparse) > 1 else ""
    dense = [f", dense {line['accuracy']:.2f} %" for line in lines if not line["total_sparsity"]]
    return f"{among}{first['method']}, {first['accuracy']:.2f} % with {first['nonzeros']:,.0f} weights{''.join(dense)}"


def beside_paper(lines: Sequence[Result]) -> str:
    """The most accurate sparse variant of a reproduction, on average over its rows, beside the paper."""
    found: dict[str, list[Result]] = {}
    for line in lines:
        if line["variant"] != "dense" and None not in (line["accuracy"], line["paper_accuracy"]):
            found.setdefault(line["variant"], []).append(line)
    if not found:
        return ""
    averages = {name: mean(line["accuracy"] for line in own) for name, own in found.items()}
    name = max(averages, key=lambda name: averages[name])
    paper = mean(line["paper_accuracy"] for line in found[name])
    rows = f" over {len(found[name])} rows" if len(found[name]) > 1 else ""
    shortened = ", which trained for longer" * any(line["shortened"] for line in found[name])
    return f"best sparse variant: {name}, {averages[name]:.2f} %{rows} (paper: {paper:.2f} %{shortened})"


def times(before: float, after: float) -> str:
    """How many times smaller.

    >>> times(50610, 2920), times(9, 4), times(1, 0)
    ('17x', '2.2x', 'all')
    """
    if not after:
        return "all"
    ratio = before / after
    return f"{ratio:,.0f}x" if ratio >= 10 else f"{ratio:.1f}x"

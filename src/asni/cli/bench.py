"""The command that compares the engine with other runtimes."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from asni.cli.options import AsJson
from asni.cli.output import print_json, print_table, say
from asni.errors import AsniError, UsageError, shown
from asni.studies.tables import Column, Table, percent, rounded

if TYPE_CHECKING:
    from asni.engine.comparing.bench import Comparison, Row

MOST_BATCH, MOST_THREADS = 65_536, 1_024


def _digits(value: float | None) -> str:
    return "-" if value is None else f"{value:,.3g}" if value < 100 else f"{value:,.0f}"


def _megabytes(value: int | None) -> str:
    return "-" if value is None else f"{value / 1e6:,.1f}"


def _times(value: float) -> str:
    """
    >>> _times(12.345), _times(0.0123)
    ('12.35', '0.012')
    """
    return f"{value:.2f}" if value >= 0.1 else f"{value:.2g}"


SPEEDS = (
    Column("runtime", "runtime", str, is_name=True),
    Column("version", "version", str, expendable=4),
    Column("median_ms", "median ms", _digits),
    Column("quantile_ms", "25 % ms", _digits, expendable=2),
    Column("items_per_second", "items/s", rounded, expendable=1),
    Column("memory_bytes", "memory MB", _megabytes, expendable=3),
    Column("file_bytes", "file MB", _megabytes, expendable=3),
    Column("asni", "asni is", str),
)

PLAN = (
    Column("name", "layer", str, is_name=True),
    Column("kind", "kind", str, is_name=True, expendable=2),
    Column("density", "density %", percent, expendable=1),
    Column("kernel", "kernel", str, is_name=True),
    Column("milliseconds", "ms an item", _digits),
    Column("gmacs", "GMAC/s", _digits, expendable=3),
    Column("peak", "% of peak", percent),
)


def _numbers(option: str, text: str, most: int) -> list[int]:
    """
    >>> _numbers("--batch", "1,64", 100)
    [1, 64]
    """
    words = [word.strip() for word in text.split(",")]
    if not all(word.isascii() and word.isdigit() and len(word) < 8 and 1 <= int(word) <= most for word in words):
        raise UsageError(f"{option}: {shown(text)!r} is not a list of numbers from 1 to {most:,}, such as 1,64.")
    return list(dict.fromkeys(map(int, words)))


def bench(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A network packed with its graph, or an .onnx file of any tool.")
    ],
    batch: Annotated[str, typer.Option(metavar="SIZES", help="Batch sizes, comma-separated.")] = "1,64",
    threads: Annotated[str, typer.Option(metavar="NUMBERS", help="Numbers of threads, comma-separated.")] = "1",
    against: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="torch, onnxruntime, openvino, mnn; comma-separated. Default: those that are installed.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Time a network here, beside other runtimes.

    They run in one process and take turns, in float32. A runtime is timed only if its results are those of the
    reference. For this, close what else keeps the machine busy.

    Examples:
      asni bench net.asni
      asni bench model.onnx --batch 1 --threads 1,2 --against onnxruntime
    """
    from asni.engine.comparing.bench import compare
    from asni.engine.comparing.opponents import OPPONENTS, available, chosen

    batches = _numbers("--batch", batch, MOST_BATCH)
    counts = _numbers("--threads", threads, MOST_THREADS)
    opponents = available() if against is None else chosen(name.strip() for name in against.split(","))
    found = compare(file, batches, counts, opponents)
    missing = [name for name, each in OPPONENTS.items() if each.version is None] if against is None else []
    if as_json:
        print_json(found.to_json())
    else:
        _print(found, missing)
    if wrong := [row for row in found.rows if row.runtime == "asni" and row.state != "right"]:
        said = "failed" if wrong[0].state == "failed" else "is wrong"
        raise AsniError(f"the engine {said} on {shown(file)}: {wrong[0].reason}")


def _print(found: "Comparison", missing: Sequence[str]) -> None:
    from asni.engine.comparing.bench import setting

    groups: dict[str, list[Row]] = {}
    for row in found.rows:
        groups.setdefault(setting(row.batch, row.threads), []).append(row)
    rows = [{**vars(row), "asni": _beside(row)} for row in found.rows]
    places = {sum(map(len, list(groups.values())[:place])): title for place, title in enumerate(groups)}
    print_table(Table(rows, SPEEDS), places)
    for row in found.rows:
        if row.state != "right":
            say(f"{setting(row.batch, row.threads)}, {row.runtime} {row.state}: {row.reason}")
    for title, group in groups.items():
        say(f"{title}: {_verdict(group)}")
    for title, plan in found.plans.items():
        _print_plan(title, plan)
    if missing:
        say(f"not installed: {', '.join(missing)}. To compare with them too: pip install 'asni[bench]'")


def _beside(row: "Row") -> str:
    """What the table says of ours beside this runtime."""
    if row.state != "right":
        return row.state
    if row.speed_up is None:
        return ""
    return f"{_times(row.speed_up)}x" + ", not faster here" * (row.speed_up <= 1)


def _verdict(rows: "Sequence[Row]") -> str:
    from asni.engine.comparing.bench import best_other

    best = best_other(rows)
    if best is None or best.speed_up is None:
        return "nothing to compare with"
    if best.speed_up <= 1:
        return f"not faster here: {best.runtime} takes {_times(best.speed_up)} of the time"
    return f"{_times(best.speed_up)}x as fast as the best other, {best.runtime}"


def _print_plan(title: str, plan: "Sequence[Mapping[str, Any]]") -> None:
    if plan:
        print_table(Table(plan, PLAN), {0: f"plan for {title}"})

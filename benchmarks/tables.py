"""Tables on pages: each stands between `<!-- table NAME -->` and `<!-- end -->`, so that no number is typed."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from asni.files import write_text

PLACE = re.compile(r"(<!-- table ([\w.-]+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)


def filled(page: str, tables: Mapping[str, str]) -> str:
    """The page with these tables in their places."""
    return PLACE.sub(lambda place: f"{place[1]}\n{tables[place[2]]}\n\n{place[4]}", page)


def fill(pages: Iterable[Path], tables: Mapping[str, str]) -> None:
    """Write the tables into the pages that have a place for them."""
    for page in pages:
        write_text(page, filled(page.read_text(encoding="utf-8"), tables))


def read(file: Path) -> dict[str, Any]:
    """What was measured; nothing if the file is not there."""
    found: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    return found


def times(value: float) -> str:
    """
    >>> [times(each) for each in (0.4321, 1.04, 12.3)]
    ['0.43', '1.0', '12']
    """
    return f"{value:.2f}" if value < 0.95 else f"{value:.1f}" if value < 9.95 else f"{value:.0f}"


def digits(value: float | None) -> str:
    """
    >>> digits(0.012345), digits(1234.5), digits(None)
    ('0.0123', '1,234', '-')
    """
    return "-" if value is None else f"{value:.3g}" if value < 100 else f"{value:,.0f}"


def percent(value: float | None) -> str:
    """
    >>> percent(0.0123), percent(0.56)
    ('1.23', '56')
    """
    return "-" if value is None else f"{100 * value:.3g}" if value < 0.0995 else f"{100 * value:.0f}"


def megabytes(value: int | None) -> str:
    return "-" if value is None else f"{value / 1e6:.1f}"


def table(head: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *body]
    return "\n".join(f"| {' | '.join(cells)} |".replace("|  |", "| |") for cells in lines)

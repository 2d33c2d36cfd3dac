"""What a notebook shows: tables, bars and curves, in the colours of the page they are shown on."""

from collections.abc import Iterable, Sequence
from html import escape

MOST_ROWS = 20
"""Longer tables are folded where they are only a part of what is shown."""

WIDTH, HEIGHT = 360, 80
LEFT, RIGHT, TOP, BOTTOM = 8, WIDTH - 82, 8, HEIGHT - 18


class Html(str):
    """Text that is HTML already; all other text is escaped."""


def html(text: str) -> Html:
    """Text as HTML.

    >>> html("<head>"), html(Html("<b>head</b>"))
    ('&lt;head&gt;', '<b>head</b>')
    """
    return text if isinstance(text, Html) else Html(escape(text))


def paragraph(text: str) -> Html:
    """One paragraph."""
    return Html(f"<p>{html(text)}</p>")


def table(headings: Sequence[str], rows: Iterable[Sequence[str]], names: int = 1) -> Html:
    """A table; the first `names` columns are aligned to the left, the others to the right.

    >>> print(table(["layer"], [["<head>"]]).replace(' style="text-align:left"', ""))
    <table><thead><tr><th>layer</th></tr></thead><tbody><tr><td>&lt;head&gt;</td></tr></tbody></table>
    """
    head, body = _row("th", headings, names), "".join(_row("td", row, names) for row in rows)
    return Html(f"<table><thead>{head}</thead><tbody>{body}</tbody></table>")


def _row(tag: str, cells: Sequence[str], names: int) -> str:
    sides = ["left" if column < names else "right" for column in range(len(cells))]
    inner = (f'<{tag} style="text-align:{side}">{html(cell)}</{tag}>' for side, cell in zip(sides, cells, strict=True))
    return f"<tr>{''.join(inner)}</tr>"


def folded_if_long(summary: str, rows: Sequence[Sequence[str]], shown: Html) -> Html:
    """What is shown of the rows, behind a summary if they are many."""
    if len(rows) <= MOST_ROWS:
        return shown
    return Html(f"<details><summary>{html(summary)}</summary>{shown}</details>")


def share(part: int, whole: int) -> Html:
    """A percentage with a bar of that length.

    >>> "12.5 %" in share(1, 8)
    True
    """
    percent = 100 * part / max(whole, 1)
    # A layer with one living weight of a million must not look like an empty one.
    number = f"{percent:.1f}" if percent >= 0.1 or not part else "&lt; 0.1"
    return Html(
        f'<span style="white-space:nowrap">{number} % <span aria-hidden="true" style="display:inline-block;width:5em;'
        'height:.6em;border:1px solid;border-radius:2px;text-align:left;line-height:0;opacity:.7">'
        f'<span style="display:inline-block;width:{percent:.1f}%;height:100%;background:currentColor"></span>'
        "</span></span>"
    )


def curve(fractions: Sequence[float], end: str, now: tuple[float, float] | None = None) -> Html:
    """A curve of fractions from 0 to 1 over time, up to `end`; what lies before `now`, a time and a fraction, is thick.

    >>> curve([0.0, 0.5, 0.9], "20 epochs", now=(0.5, 0.5)).count("<circle")
    1
    """
    last = max(len(fractions) - 1, 1)
    points = [_point(place / last, fraction) for place, fraction in enumerate(fractions)]
    final = f"{100 * fractions[-1]:.3g} %"
    parts = [
        f'<path d="M{LEFT} {BOTTOM}H{RIGHT}" stroke="currentColor" opacity=".3"/>',
        _line(points, "1"),
        _label(LEFT, HEIGHT - 4, "start", "0"),
        _label(RIGHT, HEIGHT - 4, "end", end),
        _label(RIGHT + 6, points[-1][1] + 4, "start", f"{final} pruned"),
    ]
    if now is not None:
        x, y = _point(*now)
        before = [point for point in points if point[0] <= x]
        parts += [_line([*before, (x, y)], "2.5"), f'<circle cx="{x:g}" cy="{y:g}" r="4" fill="currentColor"/>']
    return Html(
        f'<svg role="img" aria-label="{escape(f"{final} pruned after {end}")}" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'width="{WIDTH}" style="max-width:100%;height:auto">{"".join(parts)}</svg>'
    )


def _point(time: float, fraction: float) -> tuple[float, float]:
    return round(LEFT + time * (RIGHT - LEFT), 1), round(BOTTOM - fraction * (BOTTOM - TOP), 1)


def _line(points: Sequence[tuple[float, float]], width: str) -> str:
    places = " ".join(f"{x:g},{y:g}" for x, y in points)
    return f'<polyline points="{places}" fill="none" stroke="currentColor" stroke-width="{width}"/>'


def _label(x: float, y: float, anchor: str, text: str) -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" font-size="11" fill="currentColor">{escape(text)}</text>'

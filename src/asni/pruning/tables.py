"""Tables of text, for a terminal."""

from collections.abc import Iterable, Sequence

WIDTH = 120
LEAST_NAME = 12


def text_table(headings: Sequence[str], rows: Iterable[Sequence[str]], names: int = 1, width: int = WIDTH) -> str:
    """The first `names` columns are left-aligned; of them, the last is shortened first to fit the table to `width`.

    >>> print(text_table(["layer", "alive"], [["encoder.layers.0.linear1.weight", "1,024"], ["head", "96"]], width=25))
    layer               alive
    encoder.l…1.weight  1,024
    head                   96
    """
    lines = [headings, *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for column in reversed(range(names)):
        excess = sum(widths) + 2 * (len(widths) - 1) - width
        widths[column] -= max(min(excess, widths[column] - LEAST_NAME), 0)
    return "\n".join(
        "  ".join(
            f"{_shortened(cell, size):<{size}}" if column < names else f"{cell:>{size}}"
            for column, (cell, size) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    )


def _shortened(name: str, width: int) -> str:
    """The name without its middle.

    >>> _shortened("encoder.layers.0.weight", 12)
    'encode…eight'
    """
    if len(name) <= width:
        return name
    end = (width - 1) // 2
    return f"{name[: width - 1 - end]}…{name[-end:]}"

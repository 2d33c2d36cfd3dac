"""A curve in text: an area of block characters, or of # where there is nothing but ASCII."""

from collections.abc import Sequence

BLOCKS = " ▁▂▃▄▅▆▇█"
ASCII = " #"


def curve(values: Sequence[float], *, width: int, height: int, glyphs: bool) -> list[str]:
    """Lines that draw values from 0 to 1 from left to right, the highest line first.

    >>> print(*curve([0, 0.25, 0.5, 1], width=4, height=2, glyphs=False), sep="\\n")
       #
      ##
    >>> curve([0, 0.5, 1], width=3, height=1, glyphs=True)
    [' ▄█']
    """
    levels = BLOCKS if glyphs else ASCII
    columns = [values[place * len(values) // width] for place in range(width)]
    return [
        "".join(levels[round((len(levels) - 1) * min(max(value * height - row, 0), 1))] for value in columns).rstrip()
        for row in reversed(range(height))
    ]

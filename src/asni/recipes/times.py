"""Times as people write them: with a unit."""

from typing import Any

from asni.errors import MOST_QUOTED

_UNITS = {"ms": 1.0, "us": 1e-3, "s": 1e3}


def milliseconds(value: Any) -> Any:
    """A time with its unit in milliseconds; anything else is returned unchanged.

    >>> milliseconds("2.5ms"), milliseconds("300us"), milliseconds("1 s"), milliseconds(2)
    (2.5, 0.3, 1000.0, 2.0)
    """
    if not isinstance(value, str | int) or isinstance(value, bool):
        return value
    text = str(value)
    number, factor = next(
        ((text.removesuffix(unit), factor) for unit, factor in _UNITS.items() if text.endswith(unit)), (text, 1.0)
    )
    try:
        return float(number) * factor
    except ValueError:
        raise ValueError(f"{text[:MOST_QUOTED]!r} is not a time; write it as 2.5ms, 300us or 1s") from None

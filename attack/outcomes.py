"""How the cases of an attack ended."""

import sys
from collections import Counter

FORBIDDEN = frozenset({"other numbers", "leftovers", "unexplained", "memory", "traceback", "crash", "hang"})
"""What no case may end with; everything else is as it should be."""


class Tally:
    """Counts outcomes, and prints how to repeat each forbidden one."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def add(self, case: str, outcome: str) -> None:
        self._counts[outcome] += 1
        if outcome in FORBIDDEN:
            print(f"{outcome}: {case}", file=sys.stderr, flush=True)

    def counts(self) -> dict[str, int]:
        return dict(sorted(self._counts.items()))


def forbidden(counts: dict[str, int]) -> dict[str, int]:
    """The forbidden ones among the outcomes.

    >>> forbidden({"named": 3, "hang": 1})
    {'hang': 1}
    """
    return {outcome: count for outcome, count in counts.items() if outcome in FORBIDDEN}

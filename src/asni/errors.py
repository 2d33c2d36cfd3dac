"""The one kind of error that is meant for a person to read."""

from collections.abc import Iterable
from difflib import get_close_matches

MOST_LISTED = 40


class AsniError(Exception):
    """What was wrong, where, and what to do; the command line prints it without a traceback."""


class UsageError(AsniError):
    """The request itself is wrong: a misspelt name, a value out of range (exit status 2)."""


class StoppedError(AsniError):
    """The user stopped the work (exit status 130)."""


class ElsewhereError(AsniError):
    """Another process of the same training was stopped, and process 0 tells why."""


class PackError(AsniError):
    """A packed file cannot be written as asked, or cannot be read because it is damaged or not one of ours."""


def unknown(kind: str, given: str, known: Iterable[str]) -> UsageError:
    """An error that offers the nearest right name.

    >>> print(unknown("recipe", "mnist-cf", ["digits-fc", "mnist-fc"]))
    no recipe 'mnist-cf'; did you mean 'mnist-fc'? (known: digits-fc, mnist-fc)
    """
    names = sorted(known)
    listed = ", ".join(names[:MOST_LISTED]) + (f" and {len(names) - MOST_LISTED} more" * (len(names) > MOST_LISTED))
    near = [name for name in names if given and name.startswith(given)] or get_close_matches(given, names, 1, 0.5)
    hint = f"; did you mean '{near[0]}'?" if near else "."
    return UsageError(f"no {kind} '{given}'{hint} (known: {listed})")

"""The exceptions of asni, with messages for the user."""

from collections.abc import Iterable
from difflib import get_close_matches

MOST_LISTED = 40
MOST_QUOTED = 200


class AsniError(Exception):
    """The base class: its message says what was wrong, where, and what to do. The CLI prints it without a traceback."""


class UsageError(AsniError):
    """Invalid input: a misspelt name, a value out of range (exit status 2)."""


class StoppedError(AsniError):
    """The user stopped the work (exit status 130)."""


class ElsewhereError(AsniError):
    """Another process of the same training failed; process 0 reports the reason."""


class DamagedError(AsniError):
    """The content of a file is not what was written to it."""


class PackError(AsniError):
    """A packed file cannot be written as requested, or cannot be read because it is damaged or not a packed file."""


class SparsityWarning(UserWarning):
    """Something that would otherwise go wrong silently: a layer that dies, a target that is missed, lost masks."""


def shown(text: object) -> str:
    """Text from a file or an argument, as it may stand in a message: one line, and never endless.

    >>> print(shown("data/cats"), shown("cats\\nasni: done"), len(shown("x" * 10**6)))
    data/cats 'cats\\nasni: done' 203
    """
    whole = str(text)
    start = whole[:MOST_QUOTED]
    return (start if start.isprintable() else repr(start)) + "..." * (len(whole) > MOST_QUOTED)


def unknown(kind: str, given: str, known: Iterable[str]) -> UsageError:
    """An error that suggests the nearest known name.

    >>> print(unknown("recipe", "mnist-cf", ["digits-fc", "mnist-fc"]))
    no recipe 'mnist-cf'; did you mean 'mnist-fc'? (known: digits-fc, mnist-fc)
    """
    names = sorted(known)
    more = f" and {len(names) - MOST_LISTED} more" * (len(names) > MOST_LISTED)
    listed = ", ".join(map(shown, names[:MOST_LISTED])) + more
    near = [name for name in names if given and name.startswith(given)] or get_close_matches(given, names, 1, 0.5)
    hint = f"; did you mean {near[0][:MOST_QUOTED]!r}?" if near else "."
    return UsageError(f"no {kind} {given[:MOST_QUOTED]!r}{hint} (known: {listed})")

"""The exceptions of asni, with messages for the user."""

import re
from collections.abc import Iterable
from difflib import get_close_matches

MOST_LISTED = 40
MOST_QUOTED = 200

# Controls, line and paragraph separators, bidirectional controls, and halves of surrogate pairs: what can break a line
# or a terminal, or show text in another order. Not str.isprintable, which refuses ordinary spaces and joiners too.
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


class AsniError(Exception):
    """The base class: its message says what was wrong, where, and what to do. The CLI prints it without a traceback.

    >>> import asni, torch
    >>> asni.summary(torch.nn.ReLU())
    Traceback (most recent call last):
    asni.errors.AsniError: ReLU has no parameters.
    """


class UsageError(AsniError):
    """Invalid input: a misspelt name, a value out of range (exit status 2)."""


class StoppedError(AsniError):
    """The user stopped the work (exit status 130)."""


class ElsewhereError(AsniError):
    """Another process of the same training failed; process 0 reports the reason."""


class DamagedError(AsniError):
    """The content of a file is not what was written to it."""


class PackError(AsniError):
    """A packed file cannot be written as requested, or cannot be read because it is damaged or not a packed file.

    >>> import asni
    >>> asni.load(asni.__file__)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    asni.errors.PackError: ...
    """


class EngineError(AsniError):
    """A network cannot be compiled or run: an operator, a shape or a file that the engine does not take, by name.

    >>> import asni
    >>> asni.compile("net.txt")
    Traceback (most recent call last):
    asni.errors.EngineError: net.txt: neither an .asni nor an .onnx file.
    """


class SparsityWarning(UserWarning):
    """Something that would otherwise go wrong silently: a layer that dies, a target that is missed, lost masks.

    A program that must not go on can turn them into errors:

    >>> import asni, warnings
    >>> warnings.simplefilter("error", asni.SparsityWarning)
    """


def is_printable(text: str) -> bool:
    r"""Whether text is one line that is shown as it is written.

    >>> is_printable("数字\u3000実験"), is_printable("cats\n"), is_printable("\u202eleft")
    (True, False, False)
    """
    return _UNPRINTABLE.search(text) is None


def printable(text: str) -> str:
    r"""Escape what is not printable in text that may contain names read from a file.

    Line breaks are kept, because a message may have several lines: what could fake one is quoted by `repr` before.

    >>> print(printable("\x1b[31mred, \u202eleft"))
    \x1b[31mred, \u202eleft
    """
    return _UNPRINTABLE.sub(lambda found: found[0] if found[0] == "\n" else ascii(found[0])[1:-1], text)


def shown(text: object) -> str:
    """Text from a file or an argument, as it may stand in a message: one line, and never endless.

    >>> print(shown("data/cats"), shown("cats\\nasni: done"), len(shown("x" * 10**6)))
    data/cats 'cats\\nasni: done' 203
    """
    whole = str(text)
    start = whole[:MOST_QUOTED]
    return (start if is_printable(start) else repr(start)) + "..." * (len(whole) > MOST_QUOTED)


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

"""Imports what a recipe names as `package.module:name`: a network, data or an optimiser of the user's own."""

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from traceback import extract_tb

from asni.errors import UsageError, unknown


def is_code(name: str) -> bool:
    """Whether a name in a recipe is an import path."""
    return ":" in name


def imported(kind: str, name: str, must_be: str) -> Callable[..., object]:
    """Import the `kind` of thing with that name; `must_be` says in an error what it must be.

    Modules in the current directory are found too.
    """
    module_name, _, attribute = name.partition(":")
    # Permanently, since the user's code may import more when it is called or sent to a worker process.
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        raise UsageError(f"cannot import '{module_name}' for {kind} '{name}': {described(error)}") from error
    if not hasattr(module, attribute):
        public = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        raise unknown(f"{kind} in module '{module_name}' called", attribute, public)
    found = getattr(module, attribute)
    if not callable(found):
        raise UsageError(f"{kind} '{name}' is {article(found)}; it must be {must_be}")
    return found  # type: ignore[no-any-return]


def described(error: Exception) -> str:
    """The error and the line of the user's code that caused it, since the CLI prints no traceback."""
    libraries = [sys.modules[name] for name in ("asni", "torch") if name in sys.modules]
    not_theirs = ("<", importlib.__file__, *(str(Path(str(library.__file__)).parent) for library in libraries))
    theirs = [frame for frame in extract_tb(error.__traceback__) if not frame.filename.startswith(not_theirs)]
    place = f" ({theirs[-1].filename}, line {theirs[-1].lineno})" if theirs else ""
    return f"{type(error).__name__}: {error}{place}"


def article(value: object) -> str:
    """The type of a value, as it is said in a sentence.

    >>> article(3), article(None)
    ('an int', 'None')
    """
    name = type(value).__name__
    return "None" if value is None else f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"

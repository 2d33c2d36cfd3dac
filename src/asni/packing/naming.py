"""Errors about a file say which one."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from asni.errors import AsniError, PackError


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Put the file before an error about what is in it."""
    try:
        yield
    except (AsniError, RecursionError) as error:
        raise PackError(f"{path}: {error}") from error
    except MemoryError as error:
        raise PackError(f"{path}: this machine has too little memory for it") from error

"""The folder where datasets are kept between runs."""

import os
from pathlib import Path

from platformdirs import user_cache_path


def cache_folder(name: str) -> Path:
    """Where a dataset is kept: below `ASNI_DATA` if that is set, else in the user's cache folder."""
    chosen = os.environ.get("ASNI_DATA")
    return (Path(chosen).expanduser() if chosen else user_cache_path("asni")) / name


def keep(path: Path, content: bytes) -> None:
    """Write a file whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # The process number keeps two processes from writing into one another's file.
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        partial.write_bytes(content)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)

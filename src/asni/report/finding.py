"""Find the directories that hold runs. A link that leaves the root is not followed."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from asni.errors import AsniError
from asni.runs import names

_RUN_MARKERS = {names.REQUEST, names.ENVIRONMENT, names.METRICS, names.RESULT}
_LEAVES = (
    "a link that leaves the directory of the report. Give its target to asni report, or a directory that holds both."
)
_Skipped = Callable[[Path, str], object]


def directories(root: Path, skipped: _Skipped = lambda path, why: None) -> Iterator[Path]:
    """Yield directories that hold a run or parts of one; `skipped` gets those not looked into, and why."""
    waiting = [os.fspath(root)]
    seen: set[tuple[int, int]] = set()
    # Not os.walk, which calls itself for every level in Python 3.11.
    while waiting:
        folder = waiting.pop()
        try:
            stat = Path(folder).stat()
            with os.scandir(folder) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except OSError as error:
            skipped(Path(folder), f"cannot read the directory ({error.strerror})")
            continue
        # Links may form a cycle, or lead to the same directory twice.
        if (place := (stat.st_dev, stat.st_ino)) in seen:
            continue
        seen.add(place)
        below = [entry for entry in entries if _is_directory(entry)]
        if _RUN_MARKERS & {entry.name for entry in entries} - {entry.name for entry in below}:
            yield Path(folder)
        waiting += [entry.path for entry in reversed(below) if _is_looked_into(entry, root, skipped)]


def require_inside(root: Path, run: Path) -> None:
    """Refuse a run of which a file is a link that leaves `root`."""
    for path in (run / name for name in names.RUN_FILES):
        if path.is_symlink() and _leaves(root, path):
            raise AsniError(f"{path} is {_LEAVES}")


def _leaves(root: Path, path: Path) -> bool:
    return not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(root))


def _is_directory(entry: "os.DirEntry[str]") -> bool:
    try:
        return entry.is_dir()
    except OSError:
        # Such as a link to itself.
        return False


def _is_looked_into(entry: "os.DirEntry[str]", root: Path, skipped: _Skipped) -> bool:
    if entry.name.startswith("."):
        return False
    if entry.is_symlink() and _leaves(root, Path(entry.path)):
        skipped(Path(entry.path), f"it is {_LEAVES}")
        return False
    return True

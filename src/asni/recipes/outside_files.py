"""Files that somebody else may have made: only regular ones are opened, and none is read beyond a limit."""

import errno
import stat
from pathlib import Path

from asni.errors import UsageError

KINDS = {stat.S_IFIFO: "a FIFO", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device", stat.S_IFSOCK: "a socket"}


def regular_size(path: Path) -> int:
    """The bytes of a file; an OSError for a FIFO or a device, from which a read could wait or go on for ever."""
    try:
        found = path.stat()
    except ValueError as error:
        raise OSError(errno.EINVAL, f"not a path ({error})") from error
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, "Is a directory", str(path))
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, f"it is {KINDS.get(stat.S_IFMT(found.st_mode), 'special')}, not a file")
    return found.st_size


def read_bounded(path: Path, limit: int) -> bytes:
    """The content of a regular file of at most `limit` bytes."""
    if (size := regular_size(path)) > limit:
        raise OSError(errno.EFBIG, f"it has {size:,} bytes, more than the {limit:,} that are allowed")
    with path.open("rb") as file:
        return file.read(limit)


def expanded(path: str | Path, what: str) -> Path:
    """The path with a leading `~` or `~user` replaced; `what` names it in an error."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise UsageError(f"{what} = {str(path)!r}: there is no home folder of that user.") from None

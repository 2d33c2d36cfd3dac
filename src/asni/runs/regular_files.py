"""What may be opened in a directory that others can write to: regular files of a bounded size."""

import stat
from pathlib import Path

from asni.errors import AsniError

MOST_TEXT_BYTES = 64 << 20
"""Of a JSON file. The metrics of 300,000 epochs fit; parsed, a file takes about 20 times its size in memory."""


def require_regular(path: Path, most_bytes: int | None = None) -> None:
    """Refuse a FIFO or a device, whose reading may never end, and a file of more than `most_bytes`."""
    try:
        found = path.stat()
    except OSError as error:
        raise AsniError(f"cannot read {path}: {error.strerror}") from error
    if not stat.S_ISREG(found.st_mode):
        raise AsniError(f"cannot read {path}: it is a directory, a device or a pipe, not a file")
    if most_bytes is not None and found.st_size > most_bytes:
        raise AsniError(f"cannot read {path}: it has {found.st_size:,} bytes, and at most {most_bytes:,} are read")

"""What may be opened in a directory that others can write to: regular files of a bounded size."""

from pathlib import Path

from asni.errors import AsniError
from asni.files import regular_size

MOST_TEXT_BYTES = 64 << 20
"""Of a JSON file. The metrics of 300,000 epochs fit; parsed, a file takes about 20 times its size in memory."""


def require_regular(path: Path, most_bytes: int | None = None) -> None:
    """Refuse a FIFO or a device, whose reading may never end, and a file of more than `most_bytes`."""
    try:
        size = regular_size(path)
    except OSError as error:
        raise AsniError(f"cannot read {path}: {error.strerror}") from error
    if most_bytes is not None and size > most_bytes:
        raise AsniError(f"cannot read {path}: it has {size:,} bytes, and at most {most_bytes:,} are read")

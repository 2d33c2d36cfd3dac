"""How much memory a file may ask for: see "Limits" in docs/format.md."""

import sys
from collections.abc import Iterable
from pathlib import Path

from asni.errors import PackError
from asni.files import regular_size

FLOOR = 256 << 20
FACTOR = 128
UNLIMITED = sys.maxsize

READING = 24
"""Bytes that decoding, counting and converting take for each element of the largest tensor."""
WRITING = 80
"""Bytes that packing takes for each element of the largest tensor."""
_TABLES = 16 << 20
_PER_TENSOR = 16 << 10
_PER_JSON_BYTE = 64
_MOST_SHOWN = 10**18


class Memory:
    """Counts what reading a file takes before it is taken; what exceeds the limit is a `PackError`.

    The limit is `max_memory` bytes, by default FLOOR and FACTOR times the length of the file. `work` is what each
    element of the largest tensor takes besides the tensors.
    """

    def __init__(self, path: Path, max_memory: int | None = None, work: int = READING) -> None:
        self._max = max_memory
        self._work = work
        self.taken = 0
        self.length = 0
        self.add_file(path)

    def add_file(self, path: Path) -> None:
        """Take another file into account, whose content will be read too."""
        try:
            self.length += regular_size(path)
        except OSError as error:
            raise PackError(f"cannot be read: {error.strerror}") from error

    @property
    def allowed(self) -> int:
        """The limit in bytes."""
        return FLOOR + FACTOR * self.length if self._max is None else self._max

    def take(self, count: int) -> None:
        self.taken += count
        allowed = self.allowed
        if self.taken > allowed:
            default = f", {FLOOR >> 20} MiB and {FACTOR} times its length" if self._max is None else ""
            wanted = -(-min(self.taken, _MOST_SHOWN) // 10**6)
            limit = f"{allowed // 10**6:,} MB" if allowed >= 10**6 else f"{allowed:,} bytes"
            raise PackError(
                f"reading it may take {wanted:,} MB of memory or more; the limit is {limit}{default}. "
                f"If you trust the file, allow it: --max-memory {wanted}MB, or max_memory={wanted * 10**6:_} in Python"
            )

    def take_json(self, length: int) -> None:
        """Take what a JSON text of this many bytes may become."""
        self.take(_PER_JSON_BYTE * length)

    def take_tensors(self, sizes: Iterable[tuple[int, int]]) -> None:
        """Take tensors, given as their elements and the bytes of each element."""
        largest, total = 0, _TABLES
        for elements, width in sizes:
            largest = max(largest, elements)
            total += elements * width + _PER_TENSOR
        self.take(total + self._work * largest)

"""How many bytes a run's network takes as a packed file."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from asni.files import regular_size
from asni.packing.sources import read_source
from asni.packing.writing import packed
from asni.report.collecting import ShownRun, Stamps, stamps
from asni.runs import names

_MODE = "exact"
_MOST_BYTES = 256 << 20  # packing more would keep the reader waiting for many seconds


@dataclass(frozen=True)
class Size:
    """In bytes: a packed file, and the same tensors as they are."""

    packed: int
    plain: int


def packed_size(run: ShownRun) -> Size | None:
    """The size of the file that `asni pack` would write; None without weights."""
    if run.network is None:
        return None
    return _size(run.directory, stamps(run.directory, (names.REQUEST, names.RESULT, names.WEIGHTS)))


@lru_cache(maxsize=2048)
def _size(directory: Path, unchanged: Stamps) -> Size | None:
    """Cached: a served page is rebuilt often."""
    try:
        regular_size(directory / names.WEIGHTS, _MOST_BYTES)
        source = read_source(directory, _MODE)
        blocks = packed(source.tensors, _MODE, source.network, source.about)
    except Exception:
        # A hostile file can raise almost anything, and costs no more than this number.
        return None
    return Size(sum(map(len, blocks)), sum(tensor.bits.nbytes for tensor in source.tensors.values()))

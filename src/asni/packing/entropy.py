"""The entropy coder: encodes bytes, given the probability of each of the 256 byte values.

Bits are coded eight at a time: a byte of independent bits of density p has probability p^ones (1 - p)^zeros. That costs
the same as coding them one by one, and is eight times as fast.

Probabilities are computed from integers by float64 division and multiplication only, so every machine gets the same.
"""

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt
from constriction import stream

from asni.errors import PackError

Bytes = npt.NDArray[np.uint8]
Probabilities = npt.NDArray[np.float64]
Part = tuple[Bytes, Probabilities]

# The coder takes int32 symbols: chunks keep this fourfold copy small compared with the weights.
_CHUNK = 1 << 20
ONES = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).sum(axis=1)


def byte_probabilities(ones: int, bits: int) -> Probabilities:
    """Probability of each byte when its eight bits are independent and `ones` of `bits` bits are set.

    >>> [float(p) for p in byte_probabilities(1, 2)[:3] * 256]
    [1.0, 1.0, 1.0]
    """
    density = ones / bits
    powers = [(1.0, 1.0)]
    for _ in range(8):
        one, zero = powers[-1]
        powers.append((one * density, zero * (1.0 - density)))
    by_ones = np.array([powers[ones][0] * powers[8 - ones][1] for ones in range(9)])
    return np.asarray(by_ones[ONES])


def encode(parts: list[Part]) -> bytes:
    """All parts as one stream, each with its own probabilities."""
    coder = stream.stack.AnsCoder()
    for symbols, probabilities in reversed(parts):
        model = _model(probabilities)
        for start, stop in reversed(list(_chunks(len(symbols)))):
            coder.encode_reverse(symbols[start:stop].astype(np.int32), model)
    # The last word is never zero, so its leading zero bytes need not be written.
    return bytes(coder.get_compressed().astype("<u4").tobytes()).rstrip(b"\0")


def decode(data: bytes, parts: Iterable[tuple[int, Probabilities]]) -> list[Bytes]:
    """The bytes of each part, from its length and probabilities."""
    if data.endswith(b"\0"):
        raise PackError("an entropy-coded stream ends in a zero byte, which the coder never writes")
    words = np.frombuffer(data + bytes(-len(data) % 4), "<u4").astype(np.uint32)
    coder = stream.stack.AnsCoder(words)
    decoded = []
    for length, probabilities in parts:
        model = _model(probabilities)
        symbols = np.empty(length, np.uint8)
        for start, stop in _chunks(length):
            symbols[start:stop] = coder.decode(model, stop - start)
        decoded.append(symbols)
    if not coder.is_empty():
        raise PackError("an entropy-coded stream is longer than the symbols it holds")
    return decoded


def _model(probabilities: Probabilities) -> object:
    return stream.model.Categorical(probabilities, perfect=False)


def _chunks(length: int) -> Iterator[tuple[int, int]]:
    for start in range(0, length, _CHUNK):
        yield start, min(start + _CHUNK, length)

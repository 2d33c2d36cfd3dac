"""A block: a known number of bytes in the smallest of four codings.

block = method (1 byte), length of the payload (varint; omitted for RAW, where it is known), payload.
"""

import lzma
import zlib

import numpy as np
import numpy.typing as npt

from asni.errors import PackError
from asni.packing import entropy
from asni.packing.entropy import Bytes
from asni.packing.fields import Reader, varint

RAW, LZMA, HISTOGRAM, DENSITY = range(4)

# Raw LZMA2 with a fixed dictionary size: a stream that sets its own could make the reader allocate 4 GiB.
_FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 6, "dict_size": 1 << 20}]
_SAMPLE = 1 << 14
# From this many distinct symbols on, a bitmap of all 256 is shorter than a list.
_NAMED_SYMBOLS = 32


def information(counts: npt.NDArray[np.int64]) -> float:
    """The entropy of independent symbols with these counts, in bytes: sum of n log2(N / n) / 8.

    >>> information(np.array([8, 8]))
    2.0
    """
    present = counts[counts > 0]
    return float((present * np.log2(present.sum() / present)).sum() / 8)


def encode_block(data: Bytes) -> bytes:
    """The smallest block that holds `data`.

    >>> zeros = np.zeros(10_000, np.uint8)
    >>> len(encode_block(zeros)) < 30
    True
    """
    codings = [(RAW, data.tobytes())]
    if len(data):
        counts = np.bincount(data, minlength=256)
        ones = int(counts @ entropy.ONES)
        ideal = information(counts)
        # The size of each coding is known before encoding.
        by_histogram = ideal + len(_encode_table(counts))
        by_density = information(np.array([ones, 8 * len(data) - ones]))
        if min(by_histogram, by_density) < len(data):
            density = by_density < by_histogram
            codings.append((DENSITY, _density(data, ones)) if density else (HISTOGRAM, _histogram(data, counts)))
        if _repeats(data, ideal):
            codings.append((LZMA, lzma.compress(data.tobytes(), lzma.FORMAT_RAW, filters=_FILTERS)))
    method, payload = min(codings, key=lambda coding: len(coding[1]))
    length = b"" if method == RAW else varint(len(payload))
    return bytes([method]) + length + payload


def decode_block(reader: Reader, length: int) -> Bytes:
    """The `length` bytes of the block at the front of `reader`."""
    method = reader.byte()
    if method == RAW:
        return np.frombuffer(reader.take(length), np.uint8)
    payload = Reader(reader.take(reader.varint()))
    if method == LZMA:
        return _decode_lzma(payload.rest(), length)
    if method == HISTOGRAM:
        return _decode_histogram(payload, length)
    if method == DENSITY:
        return _decode_density(payload, length)
    raise PackError(f"a block uses coding {method}, which this version does not know")


def _repeats(data: Bytes, ideal: float) -> bool:
    """Whether LZMA is worth trying: deflate, which is faster, must beat the histogram on a sample."""
    middle = max(len(data) - _SAMPLE, 0) // 2
    sample = data[middle : middle + _SAMPLE]
    shrunk = zlib.compress(sample.tobytes(), level=4)
    return len(shrunk) / len(sample) < 0.98 * ideal / len(data)


def _histogram(data: Bytes, counts: npt.NDArray[np.int64]) -> bytes:
    return _encode_table(counts) + entropy.encode([(data, counts / len(data))])


def _encode_table(counts: npt.NDArray[np.int64]) -> bytes:
    symbols = np.flatnonzero(counts).astype(np.uint8)
    names = symbols if len(symbols) < _NAMED_SYMBOLS else np.packbits(counts > 0)
    return varint(len(symbols)) + names.tobytes() + b"".join(map(varint, counts[symbols].tolist()))


def _decode_histogram(payload: Reader, length: int) -> Bytes:
    number = payload.varint()
    if number < _NAMED_SYMBOLS:
        symbols = list(payload.take(number))
    else:
        symbols = np.flatnonzero(np.unpackbits(np.frombuffer(payload.take(32), np.uint8))).tolist()
    counts = dict.fromkeys(range(256), 0) | {symbol: payload.varint() for symbol in symbols}
    if not length or len(symbols) != number or sum(counts.values()) != length:
        raise PackError(f"the counts of a histogram do not add up to its {length} bytes")
    return entropy.decode(payload.rest(), [(length, np.array(list(counts.values())) / length)])[0]


def _density(data: Bytes, ones: int) -> bytes:
    return varint(ones) + entropy.encode([(data, entropy.byte_probabilities(ones, 8 * len(data)))])


def _decode_density(payload: Reader, length: int) -> Bytes:
    ones = payload.varint()
    if not length or ones > 8 * length:
        raise PackError(f"a block claims {ones} set bits among {8 * length}")
    return entropy.decode(payload.rest(), [(length, entropy.byte_probabilities(ones, 8 * length))])[0]


def _decode_lzma(payload: bytes, length: int) -> Bytes:
    decoder = lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=_FILTERS)
    try:
        data = decoder.decompress(payload, max_length=length + 1)
    except (lzma.LZMAError, EOFError) as error:
        raise PackError(f"cannot decode an LZMA block: {error}") from error
    if len(data) != length or not decoder.eof or decoder.unused_data:
        raise PackError(f"an LZMA block does not hold exactly {length} bytes")
    return np.frombuffer(data, np.uint8)

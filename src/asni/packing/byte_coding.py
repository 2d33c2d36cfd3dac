"""A block: a known number of bytes in the cheapest of four codings.

block = method (1 byte), length of what follows (varint), what follows.
"""

import lzma

import numpy as np

from asni.errors import PackError
from asni.packing import entropy
from asni.packing.entropy import Bytes
from asni.packing.fields import Reader, varint

RAW, LZMA, HISTOGRAM, DENSITY = range(4)

# Raw LZMA2 with a fixed dictionary: a stream that named its own could ask the reader for 4 GiB.
_FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 6, "dict_size": 1 << 20}]
_SAMPLE = 1 << 16


def encode_block(data: Bytes) -> bytes:
    """The cheapest block that holds `data`.

    >>> zeros = np.zeros(10_000, np.uint8)
    >>> len(encode_block(zeros)) < 30
    True
    """
    codings = [(RAW, data.tobytes())]
    if len(data):
        counts = np.bincount(data, minlength=256)
        ideal = _ideal_bytes(counts)
        if ideal < len(data):
            codings.append((HISTOGRAM, _histogram(data, counts)))
            codings.append((DENSITY, _density(data)))
        if _repeats(data, ideal):
            codings.append((LZMA, lzma.compress(data.tobytes(), lzma.FORMAT_RAW, filters=_FILTERS)))
    method, payload = min(codings, key=lambda coding: len(coding[1]))
    return bytes([method]) + varint(len(payload)) + payload


def decode_block(reader: Reader, length: int) -> Bytes:
    """The `length` bytes of the block at the front of `reader`."""
    method = reader.byte()
    payload = Reader(reader.take(reader.varint()))
    if method == RAW:
        data = np.frombuffer(payload.take(length), np.uint8)
        payload.end()
        return data
    if method == LZMA:
        return _decode_lzma(payload.rest(), length)
    if method == HISTOGRAM:
        return _decode_histogram(payload, length)
    if method == DENSITY:
        return _decode_density(payload, length)
    raise PackError(f"a block uses coding {method}, which this version does not know")


def _ideal_bytes(counts: np.ndarray) -> float:
    """What a coder that knows only the histogram cannot go below."""
    present = counts[counts > 0]
    return float((present * np.log2(present.sum() / present)).sum() / 8)


def _repeats(data: Bytes, ideal: float) -> bool:
    """Whether a dictionary coder could win: always tried on small data, on large data only if a sample of it shrinks."""
    if len(data) <= _SAMPLE:
        return True
    middle = (len(data) - _SAMPLE) // 2
    sample = data[middle : middle + _SAMPLE]
    shrunk = lzma.compress(sample.tobytes(), lzma.FORMAT_RAW, filters=_FILTERS)
    return len(shrunk) / _SAMPLE < 0.98 * ideal / len(data)


def _histogram(data: Bytes, counts: np.ndarray) -> bytes:
    symbols = np.flatnonzero(counts)
    table = b"".join(bytes([symbol]) + varint(int(counts[symbol])) for symbol in symbols.tolist())
    return varint(len(symbols)) + table + entropy.encode([(data, counts / len(data))])


def _decode_histogram(payload: Reader, length: int) -> Bytes:
    counts = [0] * 256
    for _ in range(payload.varint()):
        symbol = payload.byte()
        if counts[symbol]:
            raise PackError("a histogram names the same byte twice")
        counts[symbol] = payload.varint()
    if not length or sum(counts) != length:
        raise PackError(f"a histogram counts {sum(counts)} bytes where there are {length}")
    return entropy.decode(payload.rest(), [(length, np.array(counts) / length)])[0]


def _density(data: Bytes) -> bytes:
    ones = int(entropy.ONES[data].sum())
    return varint(ones) + entropy.encode([(data, entropy.byte_probabilities(ones, 8 * len(data)))])


def _decode_density(payload: Reader, length: int) -> Bytes:
    ones = payload.varint()
    if not length or ones > 8 * length:
        raise PackError(f"a block counts {ones} set bits among {8 * length}")
    return entropy.decode(payload.rest(), [(length, entropy.byte_probabilities(ones, 8 * length))])[0]


def _decode_lzma(payload: bytes, length: int) -> Bytes:
    decoder = lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=_FILTERS)
    try:
        data = decoder.decompress(payload, max_length=length + 1)
    except (lzma.LZMAError, EOFError) as error:
        raise PackError(f"an LZMA block does not decode: {error}") from error
    if len(data) != length or not decoder.eof or decoder.unused_data:
        raise PackError(f"an LZMA block does not hold the {length} bytes it should")
    return np.frombuffer(data, np.uint8)

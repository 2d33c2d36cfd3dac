"""Encode the nonzero values, bit for bit, in the smallest of three codings.

PALETTE: for few distinct values (the amenable initialisation has two): a table, and an index per value.
PLANES: byte planes. Signs and mantissas look random, exponents do not: the sign moves to the lowest bit, so that the
exponent of a float32 or a bfloat16 fills the highest plane.
WHOLE: the bytes in memory order, for values that repeat in longer patterns.
"""

from collections.abc import Iterator

import numpy as np

from asni.errors import PackError
from asni.packing.byte_coding import decode_block, encode_block
from asni.packing.dtypes import Array
from asni.packing.entropy import Bytes
from asni.packing.fields import Reader, varint

PALETTE, PLANES, WHOLE = range(3)
_MAX_PALETTE = 256
_SAMPLE = 4096


def encode_values(bits: Array) -> bytes:
    """The smallest section that holds the bit patterns `bits`.

    >>> bits = np.tile(np.array([0.5, -0.25], np.float32), 5000).view(np.uint32)
    >>> len(encode_values(bits)) < 50
    True
    """
    if not len(bits):
        return b""
    palette = _palette(bits)
    if palette is not None:
        return bytes([PALETTE]) + _encode_palette(bits, palette)
    planes = bytes([PLANES]) + b"".join(encode_block(plane) for plane in _planes(bits))
    if len(np.unique(bits[:_SAMPLE])) == min(_SAMPLE, len(bits)):
        return planes
    return min(planes, bytes([WHOLE]) + encode_block(bits.view(np.uint8)), key=len)


def decode_values(section: bytes, count: int, dtype: np.dtype[np.generic]) -> Array:
    """The `count` bit patterns of a section."""
    reader = Reader(section)
    if not count:
        reader.end()
        return np.empty(0, dtype)
    coding = reader.byte()
    if coding == PALETTE:
        bits = _decode_palette(reader, count, dtype)
    elif coding == PLANES:
        bits = _decode_planes(reader, count, dtype)
    elif coding == WHOLE:
        bits = decode_block(reader, count * dtype.itemsize).copy().view(dtype)
    else:
        raise PackError(f"values use coding {coding}, which this version does not know")
    reader.end()
    return bits


def _palette(bits: Array) -> Array | None:
    """The distinct values if they are few, else None; for most layers, a sample decides."""
    if len(np.unique(bits[:_SAMPLE])) > _MAX_PALETTE:
        return None
    palette = np.unique(bits)
    return palette if len(palette) <= min(_MAX_PALETTE, len(bits) // 2) else None


def _encode_palette(bits: Array, palette: Array) -> bytes:
    index = np.searchsorted(palette, bits).astype(np.uint8)
    table = varint(len(palette)) + palette.tobytes()
    if len(palette) == 1:
        return table
    return table + encode_block(np.packbits(index) if len(palette) == 2 else index)


def _decode_palette(reader: Reader, count: int, dtype: np.dtype[np.generic]) -> Array:
    size = reader.varint()
    if not 1 <= size <= _MAX_PALETTE:
        raise PackError(f"a palette has {size} values; expected 1 to {_MAX_PALETTE}")
    palette = np.frombuffer(reader.take(size * dtype.itemsize), dtype)
    if size == 1:
        return np.repeat(palette, count)
    if size == 2:
        index = np.unpackbits(decode_block(reader, -(-count // 8)), count=count)
    else:
        index = decode_block(reader, count)
        if index.max() >= size:
            raise PackError(f"palette index {index.max()} is out of range for {size} values")
    return palette[index]


def _planes(bits: Array) -> Iterator[Bytes]:
    """The bytes of the elements as one array per byte position, the lowest first."""
    width = 8 * bits.dtype.itemsize
    rotated = (bits << 1) | (bits >> (width - 1))
    for place in range(bits.dtype.itemsize):
        yield (rotated >> (8 * place)).astype(np.uint8)


def _decode_planes(reader: Reader, count: int, dtype: np.dtype[np.generic]) -> Array:
    width = 8 * dtype.itemsize
    rotated = np.zeros(count, dtype)
    for place in range(dtype.itemsize):
        rotated |= decode_block(reader, count).astype(dtype) << (8 * place)
    return (rotated >> 1) | (rotated << (width - 1))

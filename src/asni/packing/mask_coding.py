"""A mask close to its entropy.

Three forms, the cheapest by size: a block of the packed bits, which finds patterns such as 2:4 or dead blocks; bits at
the layer's density; and bits at the density of their group, where rows and columns of like density form the groups, so
that dead channels and dark pixels cost next to nothing.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from asni.errors import PackError
from asni.packing import entropy
from asni.packing.byte_coding import decode_block, encode_block
from asni.packing.fields import Reader, varint

Mask = npt.NDArray[np.bool_]
Classes = npt.NDArray[np.uint8]

BITMAP, GROUPS = range(2)


def encode_mask(mask: Mask) -> bytes:
    """The cheapest section that holds a mask of two dimensions.

    >>> mask = np.arange(10_000).reshape(100, 100) % 50 == 0
    >>> len(encode_mask(mask)) < 60
    True
    """
    bitmap = bytes([BITMAP]) + encode_block(np.packbits(mask))
    rows, columns = _classes(mask.sum(axis=1)), _classes(mask.sum(axis=0))
    one_row, one_column = np.zeros_like(rows), np.zeros_like(columns)
    choices = [(one_row, one_column), (rows, one_column), (one_row, columns), (rows, columns)]
    grouped = (_encode_groups(mask, *choice) for choice in choices)
    return min((bitmap, *grouped), key=len)


def decode_mask(section: bytes, rows: int, columns: int) -> Mask:
    """The mask of `rows` by `columns` that a section holds."""
    reader = Reader(section)
    form = reader.byte()
    if form == BITMAP:
        bits = decode_block(reader, -(-rows * columns // 8))
        reader.end()
        return np.unpackbits(bits, count=rows * columns).view(np.bool_).reshape(rows, columns)
    if form == GROUPS:
        return _decode_groups(reader, rows, columns)
    raise PackError(f"a mask uses coding {form}, which this version does not know")


def mask_entropy(nonzeros: int, size: int) -> float:
    """Bytes that `nonzeros` independent ones among `size` bits carry: size * H(nonzeros / size) / 8.

    >>> mask_entropy(8, 16)
    2.0
    """
    if nonzeros in (0, size):
        return 0.0
    zeros = size - nonzeros
    return float(nonzeros * np.log2(size / nonzeros) + zeros * np.log2(size / zeros)) / 8


def _classes(counts: npt.NDArray[np.int64]) -> Classes:
    """Counts within half an octave share a class; the classes in use are numbered from 0."""
    octaves = np.round(2 * np.log2(counts + 1.0))
    return np.unique(octaves, return_inverse=True)[1].reshape(-1).astype(np.uint8)


def _encode_groups(mask: Mask, rows: Classes, columns: Classes) -> bytes:
    head, parts = [bytes([GROUPS]), _encode_classes(rows), _encode_classes(columns)], []
    for row_index, column_index in _groups(rows, columns):
        group = mask[row_index][:, column_index]
        ones = int(group.sum())
        head.append(varint(ones))
        parts.append((np.packbits(group), entropy.byte_probabilities(ones, group.size)))
    return b"".join(head) + entropy.encode(parts)


def _decode_groups(reader: Reader, rows: int, columns: int) -> Mask:
    row_classes, column_classes = _decode_classes(reader, rows), _decode_classes(reader, columns)
    groups = list(_groups(row_classes, column_classes))
    parts = []
    for row_index, column_index in groups:
        size, ones = len(row_index) * len(column_index), reader.varint()
        if ones > size:
            raise PackError(f"a group of {size} weights claims {ones} nonzeros")
        parts.append((-(-size // 8), entropy.byte_probabilities(ones, size)))
    mask = np.zeros((rows, columns), np.bool_)
    for (row_index, column_index), bits in zip(groups, entropy.decode(reader.rest(), parts), strict=True):
        group = np.unpackbits(bits, count=len(row_index) * len(column_index)).view(np.bool_)
        mask[np.ix_(row_index, column_index)] = group.reshape(len(row_index), len(column_index))
    return mask


def _groups(rows: Classes, columns: Classes) -> Iterator[tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]]:
    column_indices = [np.flatnonzero(columns == label) for label in np.unique(columns)]
    for label in np.unique(rows):
        row_index = np.flatnonzero(rows == label)
        for column_index in column_indices:
            yield row_index, column_index


def _encode_classes(classes: Classes) -> bytes:
    if not classes.any():
        return bytes([0])
    return bytes([1]) + encode_block(classes)


def _decode_classes(reader: Reader, count: int) -> Classes:
    return decode_block(reader, count) if reader.byte() else np.zeros(count, np.uint8)

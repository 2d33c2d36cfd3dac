"""Encode a mask close to its entropy, in the smallest of three forms.

A block of the packed bits exploits patterns such as 2:4 sparsity or dead blocks. The other two code bits by density:
that of the layer, or that of their group, where rows and columns of similar density form the groups, so that dead
channels and dark pixels cost almost nothing.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from asni.errors import PackError
from asni.packing import entropy
from asni.packing.byte_coding import decode_block, encode_block, information
from asni.packing.fields import Reader, varint

Mask = npt.NDArray[np.bool_]
Classes = npt.NDArray[np.uint8]

# The form is one byte: a bitmap, or groups by the classes of rows, of columns, of both, or of neither.
BITMAP, GROUPS, BY_ROW, BY_COLUMN = 0, 1, 2, 4


def encode_mask(mask: Mask) -> bytes:
    """The smallest section that holds a mask of two dimensions.

    >>> mask = np.arange(10_000).reshape(100, 100) % 50 == 0
    >>> len(encode_mask(mask)) < 60
    True
    """
    bitmap = bytes([BITMAP]) + encode_block(np.packbits(mask))
    return min(bitmap, _encode_groups(mask, *_cheapest_classes(mask)), key=len)


def decode_mask(section: bytes, rows: int, columns: int) -> Mask:
    """The mask of `rows` by `columns` that a section holds."""
    reader = Reader(section)
    form = reader.byte()
    if form == BITMAP:
        bits = decode_block(reader, -(-rows * columns // 8))
        reader.end()
        return np.unpackbits(bits, count=rows * columns).view(np.bool_).reshape(rows, columns)
    if form & GROUPS and form < 2 * BY_COLUMN:
        row_classes = decode_block(reader, rows) if form & BY_ROW else np.zeros(rows, np.uint8)
        column_classes = decode_block(reader, columns) if form & BY_COLUMN else np.zeros(columns, np.uint8)
        return _decode_groups(reader, row_classes, column_classes)
    raise PackError(f"a mask uses coding {form}, which this version does not know")


def _classes(counts: npt.NDArray[np.int64]) -> Classes:
    """Counts within half an octave share a class; the classes in use are numbered from 0."""
    octaves = np.round(2 * np.log2(counts + 1.0))
    return np.unique(octaves, return_inverse=True)[1].reshape(-1).astype(np.uint8)


def _cheapest_classes(mask: Mask) -> tuple[Classes, Classes]:
    """The classes of rows and columns that give the smallest encoding, including the tables of classes."""
    rows, columns = _classes(mask.sum(axis=1)), _classes(mask.sum(axis=0))
    choices = [(row, column) for row in (np.zeros_like(rows), rows) for column in (np.zeros_like(columns), columns)]
    sums = np.array([mask[rows == label].sum(axis=0) for label in range(rows.max() + 1)])
    ones = np.array([sums[:, columns == label].sum(axis=1) for label in range(columns.max() + 1)]).T
    sizes = np.outer(np.bincount(rows), np.bincount(columns))

    def cost(choice: tuple[Classes, Classes]) -> float:
        merged = tuple(axis for axis, classes in enumerate(choice) if not classes.any())
        pairs = zip(ones.sum(merged).flat, sizes.sum(merged).flat, strict=True)
        return len(_class_tables(*choice)) + sum(
            information(np.array([one, size - one])) + len(varint(int(one))) for one, size in pairs
        )

    return min(choices, key=cost)


def _encode_groups(mask: Mask, rows: Classes, columns: Classes) -> bytes:
    head, parts = [_class_tables(rows, columns)], []
    for row_index, column_index in _groups(rows, columns):
        whole = len(row_index) * len(column_index) == mask.size
        group = mask if whole else mask[np.ix_(row_index, column_index)]
        ones = int(np.count_nonzero(group))
        head.append(varint(ones))
        parts.append((np.packbits(group), entropy.byte_probabilities(ones, group.size)))
    return b"".join(head) + entropy.encode(parts)


def _decode_groups(reader: Reader, rows: Classes, columns: Classes) -> Mask:
    groups = list(_groups(rows, columns))
    counts = [(len(row_index) * len(column_index), reader.varint()) for row_index, column_index in groups]
    for size, ones in counts:
        if ones > size:
            raise PackError(f"a group of {size} weights claims {ones} nonzeros")
    # One after the other: there may be 65,536 groups, and the probabilities of each take 2 KiB.
    parts = ((-(-size // 8), entropy.byte_probabilities(ones, size)) for size, ones in counts)
    mask = np.zeros((len(rows), len(columns)), np.bool_)
    for (row_index, column_index), bits in zip(groups, entropy.decode(reader.rest(), parts), strict=True):
        shape = len(row_index), len(column_index)
        group = np.unpackbits(bits, count=shape[0] * shape[1]).view(np.bool_).reshape(shape)
        if group.shape == mask.shape:
            return group
        mask[np.ix_(row_index, column_index)] = group
    return mask


def _groups(rows: Classes, columns: Classes) -> Iterator[tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]]:
    column_indices = [np.flatnonzero(columns == label) for label in np.unique(columns)]
    for label in np.unique(rows):
        row_index = np.flatnonzero(rows == label)
        for column_index in column_indices:
            yield row_index, column_index


def _class_tables(rows: Classes, columns: Classes) -> bytes:
    """The form byte, followed by the tables of classes that it needs."""
    form = GROUPS | (BY_ROW if rows.any() else 0) | (BY_COLUMN if columns.any() else 0)
    return bytes([form]) + b"".join(encode_block(classes) for classes in (rows, columns) if classes.any())

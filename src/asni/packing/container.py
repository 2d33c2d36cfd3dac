"""The bytes on disk: magic bytes, a JSON header, and sections with a checksum each. See docs/format.md."""

import json
import struct
import zlib
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Any

from asni.errors import PackError
from asni.files import write_atomically
from asni.packing.dictionary import DICTIONARY
from asni.packing.memory import Memory

MAGIC = b"\x93ASNI"
PLAIN, WITH_GRAPH = 1, 2
"""The versions of the format: the second has a `graph` in its header, which readers of the first would not know."""
_HEADER_LIMIT = 16 << 20
_HEADER_DEPTH = 100
_HEADER_EXPANSION = 64
# The file, its sections, and the parts of a section.
_COPIES = 3
_PREFIX = struct.Struct("<5sBII")
_CRC = struct.Struct("<I")


def blocks(header: dict[str, Any], sections: list[bytes]) -> list[bytes]:
    """The content of a packed file, piece by piece."""
    packed = compress_json({**header, "sections": [len(section) for section in sections]})
    prefix = MAGIC + bytes([_version(header)]) + struct.pack("<I", len(packed))
    found = [prefix, _CRC.pack(zlib.crc32(prefix + packed)), packed]
    for section in sections:
        found += [section, _CRC.pack(zlib.crc32(section))]
    return found


def read(path: Path, memory: Memory) -> tuple[dict[str, Any], list[bytes]]:
    """Read the header and the sections, and verify every checksum."""
    memory.take(_COPIES * memory.length)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise PackError(f"cannot be read: {error.strerror}") from error
    if data[: len(MAGIC)] != MAGIC:
        raise PackError("not an .asni file: the magic bytes are wrong")
    if len(data) < _PREFIX.size:
        raise PackError("the file is truncated: it ends before its header")
    _, version, length, checksum = _PREFIX.unpack_from(data)
    if version not in (PLAIN, WITH_GRAPH):
        raise PackError(
            f"the file has format version {version}, this asni reads versions {PLAIN} and {WITH_GRAPH}: "
            "install a newer asni"
        )
    packed = data[_PREFIX.size : _PREFIX.size + length]
    if len(packed) != length or zlib.crc32(data[: _PREFIX.size - 4] + packed) != checksum:
        raise PackError("the header is damaged: its checksum does not match")
    header = decompress_json(packed, memory)
    if version != _version(header):
        raise PackError(f"the file has format version {version}, but its header is of version {_version(header)}")
    return header, _split(data, _PREFIX.size + length, header.get("sections"))


def _version(header: dict[str, Any]) -> int:
    return WITH_GRAPH if "graph" in header else PLAIN


def _split(data: bytes, start: int, lengths: Any) -> list[bytes]:
    if not isinstance(lengths, list) or not all(type(length) is int and length >= 0 for length in lengths):
        raise PackError("the header does not list the lengths of the sections")
    expected = start + sum(lengths) + _CRC.size * len(lengths)
    if expected != len(data):
        raise PackError(f"the file has {len(data)} bytes, but its header claims {expected}")
    sections = []
    for index, length in enumerate(lengths):
        section = data[start : start + length]
        start += length + _CRC.size
        if zlib.crc32(section) != _CRC.unpack_from(data, start - _CRC.size)[0]:
            raise PackError(f"section {index} is damaged: its checksum does not match")
        sections.append(section)
    return sections


def write_blocks(path: Path, blocks: Iterable[bytes]) -> None:
    """Write these bytes to a file atomically."""

    def write_all(temporary: Path) -> None:
        with temporary.open("wb") as file:
            file.writelines(blocks)

    write_atomically(path, write_all)


def compress_json(content: dict[str, Any]) -> bytes:
    """Compress with raw deflate and the format's preset dictionary, at most by the ratio that a reader accepts.

    >>> len(compress_json({"mode": "exact"}))
    5
    """
    _require_shallow(content)
    try:
        text = json.dumps(content, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
    except ValueError as error:
        raise PackError(f"the header cannot be written as JSON: {error}") from error
    if len(text) > _HEADER_LIMIT:
        raise PackError(f"the header would take {len(text)} bytes; the format allows {_HEADER_LIMIT}")
    packed = _deflate(text, zlib.Z_BEST_COMPRESSION)
    return packed if len(text) <= _json_limit(len(packed)) else _deflate(text, zlib.Z_NO_COMPRESSION)


def decompress_json(packed: bytes, memory: Memory) -> dict[str, Any]:
    """The JSON object in a deflated section."""
    inflate = zlib.decompressobj(-zlib.MAX_WBITS, zdict=DICTIONARY)
    limit = _json_limit(len(packed))
    try:
        text = inflate.decompress(packed, limit)
        if not inflate.eof or inflate.unused_data:
            raise PackError(f"the header does not end within {limit} bytes")
        memory.take_json(len(text))
        content = json.loads(text)
    except (zlib.error, ValueError, RecursionError) as error:
        raise PackError(f"the header is not JSON: {error}") from error
    if not isinstance(content, dict):
        raise PackError("the header is not a JSON object")
    _require_shallow(content)
    return content


def _require_shallow(content: dict[str, Any]) -> None:
    """Refuse what would exceed Python's limit of recursion where it is copied or shown."""
    level: list[Any] = [content]
    for _ in range(_HEADER_DEPTH):
        inner = [node.values() if isinstance(node, dict) else node for node in level if isinstance(node, dict | list)]
        level = list(chain.from_iterable(inner))
    if level:
        raise PackError(f"the header is nested more than {_HEADER_DEPTH} levels deep")


def _json_limit(packed_length: int) -> int:
    return min(_HEADER_LIMIT, max(1 << 12, _HEADER_EXPANSION * packed_length))


def _deflate(text: bytes, level: int) -> bytes:
    deflate = zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS, 9, zdict=DICTIONARY)
    return deflate.compress(text) + deflate.flush()

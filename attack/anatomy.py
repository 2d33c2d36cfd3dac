"""Packed files taken apart, and hostile ones put together, without asni's own writer."""

import json
import struct
import zlib
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from asni.packing.dictionary import DICTIONARY

_ONE = struct.pack("<f", 1)


@dataclass
class Anatomy:
    """A file taken apart as docs/format.md describes it, and put together again with its checksums repaired."""

    header: Any
    sections: list[bytes]
    version: int = 1

    @classmethod
    def of(cls, data: bytes) -> "Anatomy":
        _, version, length, _ = struct.unpack_from("<5sBII", data)
        inflate = zlib.decompressobj(-15, zdict=DICTIONARY)
        header = json.loads(inflate.decompress(data[14 : 14 + length]))
        sections, at = [], 14 + length
        for size in header["sections"]:
            sections.append(data[at : at + size])
            at += size + 4
        return cls(header, sections, version)

    def assembled(self) -> bytes:
        deflate = zlib.compressobj(9, zlib.DEFLATED, -15, zdict=DICTIONARY)
        packed = deflate.compress(json.dumps(self.header).encode()) + deflate.flush()
        prefix = struct.pack("<5sBI", b"\x93ASNI", self.version, len(packed))
        body = b"".join(section + struct.pack("<I", zlib.crc32(section)) for section in self.sections)
        return prefix + struct.pack("<I", zlib.crc32(prefix + packed)) + packed + body


def write_ones(path: Path, tensors: list[dict[str, Any]], padding: int) -> None:
    """A file of float32 tensors full of ones, or `same` as the first one: 8 bytes in the file, any size in memory.

    `padding` zero bytes make the file longer.
    """
    content = zlib.crc32(json.dumps(["exact", {}], sort_keys=True).encode())
    sections = []
    for tensor in tensors:
        shape = tensors[0]["shape"] if "same" in tensor else tensor["shape"]
        content = zlib.crc32(json.dumps([tensor["name"], "float32", shape, tensor.get("same")]).encode(), content)
        if "same" not in tensor:
            for _ in range(prod(shape) >> 16):
                content = zlib.crc32(_ONE * (1 << 16), content)
            content = zlib.crc32(_ONE * (prod(shape) % (1 << 16)), content)
            # The length of the values, a palette, of one value, which is 1.0.
            sections.append(bytes([6, 0, 1]) + _ONE)
    sections.append(bytes(padding))
    header: dict[str, Any] = {"mode": "exact", "network": {}, "tensors": tensors, "about": False, "content": content}
    header["sections"] = [len(section) for section in sections]
    path.write_bytes(Anatomy(header, sections).assembled())

"""Ways to damage a packed file whose checksums are made to agree, so that only the decoders stand in the way."""

import json
import random
import struct
import zlib
from typing import Any

from asni.packing.dictionary import DICTIONARY
from attack.spoiling import Spoiler, cut, edit_json, flip_bits, grow, overwrite


class Anatomy:
    """A file taken apart as docs/format.md describes it, and put together again with its checksums repaired."""

    def __init__(self, data: bytes) -> None:
        _, _, length, _ = struct.unpack_from("<5sBII", data)
        inflate = zlib.decompressobj(-15, zdict=DICTIONARY)
        self.header: Any = json.loads(inflate.decompress(data[14 : 14 + length]))
        self.sections, at = [], 14 + length
        for size in self.header["sections"]:
            self.sections.append(data[at : at + size])
            at += size + 4

    def assembled(self) -> bytes:
        deflate = zlib.compressobj(9, zlib.DEFLATED, -15, zdict=DICTIONARY)
        packed = deflate.compress(json.dumps(self.header).encode()) + deflate.flush()
        prefix = struct.pack("<5sBI", b"\x93ASNI", 1, len(packed))
        body = b"".join(section + struct.pack("<I", zlib.crc32(section)) for section in self.sections)
        return prefix + struct.pack("<I", zlib.crc32(prefix + packed)) + packed + body


def edit_header(data: bytes, rng: random.Random) -> bytes:
    anatomy = Anatomy(data)
    edit_json(anatomy.header, rng)
    return anatomy.assembled()


def edit_section(data: bytes, rng: random.Random) -> bytes:
    anatomy = Anatomy(data)
    index = rng.randrange(len(anatomy.sections))
    section = anatomy.sections[index] or b"\0"
    anatomy.sections[index] = rng.choice([flip_bits, cut, grow, overwrite])(section, rng)
    anatomy.header["sections"] = [len(section) for section in anatomy.sections]
    return anatomy.assembled()


def shuffle_tensors(data: bytes, rng: random.Random) -> bytes:
    anatomy = Anatomy(data)
    rng.shuffle(rng.choice([anatomy.header["tensors"], anatomy.sections, anatomy.header["sections"]]))
    return anatomy.assembled()


def inflate_header(data: bytes, rng: random.Random) -> bytes:
    """A header that is small in the file and huge, or deep, in memory."""
    anatomy = Anatomy(data)
    deep: Any = []
    for _ in range(rng.choice([500, 900])):
        deep = [deep]
    anatomy.header[rng.choice(["more", "tensors", "network"])] = rng.choice([" " * 10**6, [[]] * 10**5, deep])
    return anatomy.assembled()


SPOILERS: list[Spoiler] = [
    flip_bits, cut, grow, overwrite, edit_header, edit_header, edit_section, edit_section, shuffle_tensors,
    inflate_header,
]  # fmt: skip

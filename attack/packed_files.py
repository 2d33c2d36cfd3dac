"""Ways to damage a packed file whose checksums are made to agree, so that only the decoders stand in the way."""

import random
from typing import Any

from attack.anatomy import Anatomy
from attack.spoiling import Spoiler, cut, edit_json, flip_bits, grow, overwrite


def edit_header(data: bytes, rng: random.Random) -> bytes:
    anatomy = Anatomy.of(data)
    edit_json(anatomy.header, rng)
    return anatomy.assembled()


def edit_section(data: bytes, rng: random.Random) -> bytes:
    anatomy = Anatomy.of(data)
    index = rng.randrange(len(anatomy.sections))
    section = anatomy.sections[index] or b"\0"
    anatomy.sections[index] = rng.choice([flip_bits, cut, grow, overwrite])(section, rng)
    anatomy.header["sections"] = [len(section) for section in anatomy.sections]
    return anatomy.assembled()


def shuffle_tensors(data: bytes, rng: random.Random) -> bytes:
    anatomy = Anatomy.of(data)
    rng.shuffle(rng.choice([anatomy.header["tensors"], anatomy.sections, anatomy.header["sections"]]))
    return anatomy.assembled()


def inflate_header(data: bytes, rng: random.Random) -> bytes:
    """A header that is small in the file and huge, or deep, in memory."""
    anatomy = Anatomy.of(data)
    deep: Any = []
    for _ in range(rng.choice([500, 900])):
        deep = [deep]
    anatomy.header[rng.choice(["more", "tensors", "network"])] = rng.choice([" " * 10**6, [[]] * 10**5, deep])
    return anatomy.assembled()


SPOILERS: list[Spoiler] = [
    flip_bits, cut, grow, overwrite, edit_header, edit_header, edit_section, edit_section, shuffle_tensors,
    inflate_header,
]  # fmt: skip

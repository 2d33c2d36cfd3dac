"""Ways to damage the bytes of any file: what disks, copies, editors and attackers do to them."""

import random
import struct
from collections.abc import Callable
from typing import Any

Spoiler = Callable[[bytes, random.Random], bytes]

NASTY: list[Any] = [
    2**60, 2**31, -1, 0, 1, 3, None, "", "x", [], {}, [2**60], [2**30, 2**30], [-1, 4], [[[]]], 1e300, True, False,
    "float64", "bfloat16", "int8", "bool", "amenable", "half", 0.5,
]  # fmt: skip


def flip_bit(data: bytes, rng: random.Random) -> bytes:
    spoilt = bytearray(data)
    spoilt[rng.randrange(len(spoilt))] ^= 1 << rng.randrange(8)
    return bytes(spoilt)


def flip_bits(data: bytes, rng: random.Random) -> bytes:
    for _ in range(rng.choice([1, 1, 2, 8, 64])):
        data = flip_bit(data, rng)
    return data


def zero_page(data: bytes, rng: random.Random) -> bytes:
    """What a disk gives back for a block that it lost."""
    size = rng.choice([512, 4096])
    start = size * rng.randrange(-(-len(data) // size))
    return data[:start] + bytes(len(data[start : start + size])) + data[start + size :]


def swap_blocks(data: bytes, rng: random.Random) -> bytes:
    size = min(rng.choice([16, 512, 4096]), len(data) // 2)
    first, second = sorted(
        (rng.randrange(len(data) // 2 - size + 1), rng.randrange(len(data) // 2, len(data) - size + 1))
    )
    between = data[first + size : second]
    return data[:first] + data[second : second + size] + between + data[first : first + size] + data[second + size :]


def cut(data: bytes, rng: random.Random) -> bytes:
    start = rng.choice([0, 0, 0, rng.randrange(len(data))])
    return data[start : rng.randrange(start, len(data))]


def cut_end(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(1, len(data))]


def grow(data: bytes, rng: random.Random) -> bytes:
    at = rng.choice([0, len(data), rng.randrange(len(data))])
    return data[:at] + rng.randbytes(rng.choice([1, 4, 100])) + data[at:]


def overwrite(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data))
    filling = rng.choice([bytes(8), b"\xff" * 8, rng.randbytes(8), struct.pack("<Q", 2**60)])
    return (data[:at] + filling + data[at + 8 :])[: len(data)]


def change_digit(data: bytes, rng: random.Random) -> bytes:
    """Another number, in a text that is as valid as before."""
    places = [at for at, byte in enumerate(data) if 48 <= byte <= 57]
    if not places:
        return flip_bit(data, rng)
    at = rng.choice(places)
    return data[:at] + rng.choice([digit for digit in b"123456789" if digit != data[at]]).to_bytes() + data[at + 1 :]


def empty(data: bytes, rng: random.Random) -> bytes:
    return b""


def edit_json(content: Any, rng: random.Random) -> None:
    """Any value anywhere in the JSON replaced, removed or doubled."""
    places: list[tuple[Any, Any]] = []

    def walk(node: Any) -> None:
        for key in list(node) if isinstance(node, dict) else range(len(node)):
            places.append((node, key))
            if isinstance(node[key], dict | list):
                walk(node[key])

    walk(content)
    for _ in range(rng.choice([1, 1, 2, 3])):
        node, key = rng.choice(places)
        action = rng.randrange(6)
        if action == 0 and isinstance(node, list):
            node.insert(rng.randrange(len(node) + 1), rng.choice(NASTY))
        elif action == 1 and isinstance(node, list) and node:
            node.insert(rng.randrange(len(node)), rng.choice(node))
        elif action == 2 and isinstance(node, dict):
            node.pop(key, None)
        elif isinstance(node, dict) or key < len(node):
            old = node[key] if isinstance(node, list) else node.get(key)
            near = old + rng.choice([-1, 1, 8]) if type(old) is int else rng.choice(NASTY)
            node[key] = rng.choice([near, rng.choice(NASTY)])

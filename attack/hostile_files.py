"""Files that others may have written, ways to spoil them, and the commands that read them."""

import json
import random
import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from asni.packing import pack, unpack
from asni.packing.dtypes import Array
from asni.runs import names
from attack import packed_files
from attack.small_graphs import originals
from attack.small_runs import HOME
from attack.spoiling import NASTY, Spoiler, cut, edit_json, flip_bits, grow, overwrite
from attack.spoilt_graphs import Draft

Command = tuple[str, ...]
FILE, FOLDER = "{file}", "{folder}"

INSPECT, PLAN = ("inspect", FILE), ("plan", FILE)
UNPACK, TO_CSR = ("unpack", FILE, "--out", "made.safetensors"), ("unpack", FILE, "--to", "csr", "--out", "made.npz")
PACK, PACK_RUN = ("pack", FILE, "--out", "made.asni"), ("pack", FOLDER, "--out", "made.asni")
REPORT = ("report", FOLDER, "--out", "made.html")

MODES = ("exact", "half", "int8", "amenable")
PACKED = (*MODES, "graph")
RECIPE = """
dataset = "digits"
network = "fc"
[training]
epochs = 30
batch_size = 50
optimizer = "adam"
lr = 1.2e-3
lr_policy = "cosine"
warmup_epochs = 2
threads = 1
[pruning]
sparsity = 0.95
beta = 0.5
gamma = 2.0
[lottery]
rounds = 3
"""


@dataclass(frozen=True)
class Target:
    """A file, ways to spoil it, and the commands that read it; `unpacked` is what `UNPACK` must write, if anything."""

    path: Path
    spoilers: tuple[Spoiler, ...]
    commands: tuple[Command, ...]
    unpacked: bytes = b""


def targets(folder: Path) -> list[Target]:
    """One of every kind, made in a folder with trained runs."""
    rng = np.random.default_rng(0)
    weight = rng.normal(size=(40, 60)).astype(np.float32) * (rng.random((40, 60)) < 0.2)
    state: dict[str, Array] = {
        "layer.weight": weight,
        "layer.bias": rng.normal(size=40),
        "tied.weight": weight,
        "order": np.arange(500),
    }
    for mode in MODES:
        pack(state, folder / f"{mode}.asni", mode)
    Draft.of(originals()[0]).write(folder / "graph.asni")
    for name in PACKED:
        unpack(folder / f"{name}.asni", folder / f"{name}.safetensors")
    (folder / "recipe.toml").write_text(RECIPE)
    torch.save({name: torch.from_numpy(array) for name, array in state.items()}, folder / "state.pt")
    bytewise = (flip_bits, cut, grow, overwrite)
    return [
        *(_packed(folder / f"{name}.asni") for name in PACKED),
        Target(folder / "exact.safetensors", (*bytewise, edit_safetensors, edit_safetensors), (INSPECT, PACK)),
        Target(folder / "state.pt", bytewise, (INSPECT, PACK)),
        Target(folder / "recipe.toml", (edit_toml, edit_toml, edit_toml, flip_bits, cut, overwrite), (PLAN,)),
        Target(folder / HOME / "asni-1" / names.REQUEST, (edit_json_file, flip_bits, cut), (PACK_RUN, REPORT)),
    ]


def _packed(path: Path) -> Target:
    expected = path.with_suffix(".safetensors").read_bytes()
    return Target(path, tuple(packed_files.SPOILERS), (INSPECT, UNPACK, TO_CSR), expected)


def edit_safetensors(data: bytes, rng: random.Random) -> bytes:
    length = int.from_bytes(data[:8], "little")
    text = edit_json_file(data[8 : 8 + length], rng)
    return struct.pack("<Q", len(text)) + text + data[8 + length :]


def edit_json_file(data: bytes, rng: random.Random) -> bytes:
    content = json.loads(data)
    edit_json(content, rng)
    return json.dumps(content).encode()


_TOML = (
    *(json.dumps(value) for value in NASTY if value is not None), "nan", "-inf", "1e-320", "9" * 5000, "[" * 2000,
    "1979-05-27T07:32:00Z", "0x7fffffffffffffffffff", '"../../x"', '"\\u001b[31m"', "100000", "1000000000", "-0.0",
)  # fmt: skip


def edit_toml(data: bytes, rng: random.Random) -> bytes:
    """Lines doubled, removed, or with another value."""
    lines = data.decode().splitlines()
    for _ in range(rng.choice([1, 1, 2, 3])):
        at, action = rng.randrange(len(lines)), rng.randrange(6)
        if action == 0:
            lines.insert(at, rng.choice(lines))
        elif action == 1:
            lines[at] = ""
        elif "=" in lines[at]:
            lines[at] = f"{lines[at].partition('=')[0]}= {rng.choice(_TOML)}"
    return "\n".join(lines).encode()

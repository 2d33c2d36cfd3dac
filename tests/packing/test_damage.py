"""Ten thousand ways to spoil a file: each loads to exactly the original or says what is wrong, within its memory.

A slice of them runs here; all of them with ASNI_FUZZ=10000 in the environment.
"""

import os
import random
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from asni.errors import PackError
from asni.packing import GraphSection, inspect, pack, read
from asni.packing.dtypes import Tensor
from asni.packing.writing import write
from attack.anatomy import Anatomy
from attack.packed_files import SPOILERS

MUTATIONS = int(os.environ.get("ASNI_FUZZ", "600"))
ALLOWED = 24 << 20
"""The memory that a spoilt file may take, of which an original takes two thirds."""


def originals(folder: Path) -> list[Path]:
    rng = np.random.default_rng(0)
    weight = rng.normal(size=(40, 60)).astype(np.float32) * (rng.random((40, 60)) < 0.2)
    dark = weight.copy()
    dark[:, ::2] = 0
    state = {
        "layer.weight": weight, "layer.bias": rng.normal(size=40).astype(np.float32), "tied.weight": weight,
        "dark.weight": dark, "steps": np.array(7), "empty": np.zeros((0, 3)), "order": np.arange(500),
        "flags": rng.random(64) < 0.5, "levels": rng.integers(0, 4, (16, 16)).astype(np.float32),
    }  # fmt: skip
    paths = [folder / f"{mode}.asni" for mode in ("exact", "half", "int8", "amenable")]
    for path in paths:
        pack(state, path, mode=path.stem)
    graph = {"inputs": {"x": [3, 40]}, "outputs": ["y"], "nodes": [{"op": "Relu", "inputs": ["x"], "outputs": ["y"]}]}
    section = GraphSection(graph, {"shape": Tensor.of(np.array([3, 40])), "levels": Tensor.of(state.pop("levels"))})
    tensors = {name: Tensor.of(array) for name, array in state.items()}
    write(folder / "graph.asni", tensors, "int8", {}, {}, section)
    return [*paths, folder / "graph.asni"]


def content(path: Path) -> list[tuple[str, str, tuple[int, ...], bytes]]:
    packed = read(path)
    tensors = [*packed.tensors.items(), *(packed.graph.constants.items() if packed.graph else ())]
    return [(name, held.dtype.name, held.array.shape, held.bits.tobytes()) for name, held in tensors]


def test_a_spoilt_file_is_the_original_or_an_error(tmp_path: Path) -> None:
    spoilt = tmp_path / "spoilt.asni"
    expected = {path: content(path) for path in originals(tmp_path)}
    outcomes = {"refused": 0, "unharmed": 0}
    tracemalloc.start()
    for seed in range(MUTATIONS):
        rng = random.Random(seed)
        path = rng.choice(list(expected))
        data = SPOILERS[seed % len(SPOILERS)](path.read_bytes(), rng)
        spoilt.write_bytes(data)
        tracemalloc.reset_peak()
        before, _ = tracemalloc.get_traced_memory()
        try:
            inspect(spoilt, max_memory=ALLOWED)
        except PackError:
            outcomes["refused"] += 1
        else:
            outcomes["unharmed"] += 1
            assert content(spoilt) == expected[path], seed
        _, peak = tracemalloc.get_traced_memory()
        assert peak - before < ALLOWED, seed
    tracemalloc.stop()
    print(outcomes)
    assert outcomes["refused"] > 0.9 * MUTATIONS


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda data: data[:-1], r"\d+ bytes.* header .*\d+"),
        (lambda data: data[:10], "before its header"),
        (lambda data: b"PK\3\4" + data[4:], r"not an \.asni file"),
        (lambda data: data[:5] + b"\3" + data[6:], "version 3"),
        (lambda data: data[:20] + b"?" + data[21:], "header .*checksum"),
        (lambda data: data[:-6] + bytes([data[-6] ^ 1]) + data[-5:], "section 0 .*checksum"),
    ],
)
def test_the_error_says_what_is_wrong_with_which_file(
    tmp_path: Path, spoil: Callable[[bytes], bytes], reason: str
) -> None:
    path = tmp_path / "net.asni"
    pack({"weight": np.eye(30, dtype=np.float32)}, path)
    path.write_bytes(spoil(path.read_bytes()))
    with pytest.raises(PackError, match=rf"net\.asni: .*{reason}"):
        read(path)


def test_a_shape_beyond_the_files_length_is_refused_before_memory_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "net.asni"
    pack({"weight": np.eye(30, dtype=np.float32)}, path)
    anatomy = Anatomy.of(path.read_bytes())
    anatomy.header["tensors"][0]["shape"] = [2**30, 2**30]
    path.write_bytes(anatomy.assembled())
    with pytest.raises(PackError, match=r"net\.asni: .*memory.*--max-memory"):
        read(path)


def test_a_description_that_nests_without_end_is_refused(tmp_path: Path) -> None:
    deep: Any = {}
    for _ in range(600):
        deep = {"deeper": deep}
    path = tmp_path / "net.asni"
    with pytest.raises(PackError, match="nested more than 100 levels"):
        write(path, {"weight": Tensor.of(np.eye(3))}, "exact", {}, {"recipe": deep})
    pack({"weight": np.eye(3)}, path)
    anatomy = Anatomy.of(path.read_bytes())
    anatomy.header["network"] = {"options": deep}
    path.write_bytes(anatomy.assembled())
    with pytest.raises(PackError, match=r"net\.asni: .*nested more than 100 levels"):
        inspect(path)


def test_numbers_of_thousands_of_digits_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "net.asni"
    pack({"weight": np.eye(3)}, path)
    anatomy = Anatomy.of(path.read_bytes())
    anatomy.header["tensors"][0]["shape"] = [3**8000, 7**4000]
    path.write_bytes(anatomy.assembled())
    with pytest.raises(PackError, match=r"net\.asni: the shape of weight is not a list of sizes"):
        read(path)

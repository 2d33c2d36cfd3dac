"""The format itself: what version 1 wrote yesterday is read tomorrow, and the document tells the truth."""

import re
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from asni.errors import PackError
from asni.packing import GraphSection, pack, read
from asni.packing.dictionary import DICTIONARY
from asni.packing.writing import write
from attack.anatomy import Anatomy

ROOT = Path(__file__).parents[2]

GOLDEN = """
9341534e49015000000013cbd575c39f26b00429314e36d231c1e3f9924c70190669a3182049104cf34678f224a4ac27ab68047a18b9d4
cacfcfc1e31988e658dce16c666460666e6209aa8291c2d910581f199ae8185ae8189bc4d602002801449f056894e87f705e95206f8034
116c7af20071e107cc661a9c0080744ffe7db15824ea4caa206c01020d0200012420c47abe80d4d5c7020301000333671073fe383087ef
653c2bc34f4ea0fee6816915e8030a2e1ecbae8aba121df8a675aaafe85d93e9be9d49fdd7099b1e7528ac0222067c7d7e7f8081020408
1020069cca705db1fb11373ef64a6162c7e0698587f2db013b72bd560d01000001030100008000007f00d75273b8110100060000000000
000000000000000000053ab6032100020001031b2476bca0f1c2a9b0389d69c2daf6bbd008099e2112ec4b736f820a2f502994
"""


def golden_state() -> dict[str, npt.NDArray[Any]]:
    weight = np.zeros((12, 40), np.float32)
    weight.flat[::7] = np.arange(69) / 8 - 4
    bias = np.array([1.5, -0.0], np.float32)
    return {"weight": weight, "tied": weight, "bias": bias, "steps": np.array(3), "two": weight > 0}


def test_a_file_of_version_1_is_still_read(tmp_path: Path) -> None:
    (tmp_path / "old.asni").write_bytes(bytes.fromhex(GOLDEN))
    arrays = read(tmp_path / "old.asni").arrays
    for name, expected in golden_state().items():
        assert arrays[name].dtype == expected.dtype
        assert arrays[name].tobytes() == expected.tobytes()


def test_what_version_1_can_hold_is_written_as_version_1_wrote_it(tmp_path: Path) -> None:
    pack(golden_state(), tmp_path / "new.asni")
    assert (tmp_path / "new.asni").read_bytes() == bytes.fromhex(GOLDEN)


def test_a_reader_of_version_1_is_told_that_a_file_with_a_graph_is_another_version(tmp_path: Path) -> None:
    graph = {"inputs": {"x": [1]}, "outputs": ["x"], "nodes": []}
    write(tmp_path / "net.asni", {}, "exact", {}, {}, GraphSection(graph, {}))
    data = (tmp_path / "net.asni").read_bytes()
    assert data[5] == 2
    for version in (1, 3):
        (tmp_path / "net.asni").write_bytes(replace(Anatomy.of(data), version=version).assembled())
        with pytest.raises(PackError, match=rf"net\.asni: the file has format version {version}, "):
            read(tmp_path / "net.asni")


def test_the_documented_dictionary_is_the_one_in_use() -> None:
    documented = re.search(r"CRC-32 `(\w+)`, ([\d,]+) bytes", (ROOT / "docs" / "format.md").read_text())
    assert documented is not None
    assert documented.groups() == (f"{zlib.crc32(DICTIONARY):08x}", f"{len(DICTIONARY):,}")

"""No file takes more memory than its length allows, whatever it claims; who trusts a file can allow more."""

import json
import os
import random
import re
import struct
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from asni.errors import PackError
from asni.networks.building import NETWORKS
from asni.packing import contents, inspect, load, pack, read, unpack
from asni.packing.dtypes import DTYPES, Tensor, from_float32
from asni.packing.memory import FACTOR, UNLIMITED, WRITING, Memory
from asni.packing.reading import decoded
from asni.packing.writing import write
from attack.anatomy import Anatomy, write_ones

Operation = Callable[[Path], object]
OPERATIONS: dict[str, Operation] = {
    "read": read,
    "inspect": inspect,
    "inspect --sparsity": lambda path: contents(path, 0.5),
    "safetensors": lambda path: unpack(path, path.with_suffix(".safetensors")),
    "csr": lambda path: unpack(path, path.with_suffix(".npz"), "csr"),
}


def peak(operation: Operation, path: Path) -> int:
    tracemalloc.start()
    try:
        operation(path)
    finally:
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    return most


def ones(shape: list[int]) -> list[dict[str, Any]]:
    return [{"name": "weight", "dtype": "float32", "shape": shape, "sparse": False}]


def copies(count: int) -> list[dict[str, Any]]:
    return [{"name": str(index), "same": 0} for index in range(count)]


@pytest.mark.parametrize("operation", ["read", "inspect --sparsity", "csr"])
@pytest.mark.parametrize(
    "tensors",
    [ones([1 << 24]), ones([1 << 24, 1]), ones([100]) + copies(17_000), ones([1 << 14, 1 << 6]) + copies(100)],
    ids=["one tensor", "one column", "many small copies", "a few large copies"],
)
def test_a_small_file_of_large_tensors_is_refused_before_it_takes_memory(
    tmp_path: Path, operation: str, tensors: list[dict[str, Any]]
) -> None:
    path = tmp_path / "net.asni"
    write_ones(path, tensors, padding=1 << 14)
    assert path.stat().st_size < 1 << 17
    tracemalloc.start()
    with pytest.raises(PackError, match=r"net\.asni: reading it may take .* the limit is .*--max-memory"):
        OPERATIONS[operation](path)
    assert tracemalloc.get_traced_memory()[1] < 32 << 20
    tracemalloc.stop()


SIZE = 1 << 18
TABLES = {"inspect --sparsity": 3 << 20}
"""How much of the 16 MiB that are counted for tables an operation takes; one that is not listed takes 1 MiB."""


def written(path: Path, dtype: str, kind: str, mode: str, shape: tuple[int, int] = (SIZE // 256, 256)) -> None:
    rng = np.random.default_rng(0)
    values = np.ones(SIZE, np.float32)
    if kind == "sparse":
        values = rng.normal(size=SIZE).astype(np.float32) * (rng.random(SIZE) < 0.5) + 0
    if kind == "signs":
        values = np.sign(rng.normal(size=SIZE)).astype(np.float32)
    floats = dtype in ("float64", "float32", "float16", "bfloat16")
    bits = from_float32(values, DTYPES[dtype]) if floats else np.abs(values * 9).astype(DTYPES[dtype].bits)
    write(path, {"weight": Tensor.from_bits(DTYPES[dtype], bits, shape)}, mode, {}, {})


@pytest.mark.parametrize(
    ("dtype", "kind", "mode", "shape"),
    [
        ("float64", "sparse", "exact", (SIZE // 256, 256)),
        ("float32", "sparse", "half", (SIZE // 256, 256)),
        ("float32", "signs", "amenable", (SIZE // 256, 256)),
        ("float64", "same", "int8", (SIZE // 256, 256)),
        ("float16", "same", "int8", (1, SIZE)),
        ("bfloat16", "same", "int8", (SIZE, 1)),
        ("bfloat16", "same", "exact", (SIZE, 1)),
        ("bfloat16", "sparse", "exact", (SIZE // 256, 256)),
        ("uint8", "sparse", "exact", (SIZE // 256, 256)),
        ("int64", "sparse", "exact", (SIZE // 256, 256)),
    ],
)
def test_every_operation_stays_within_what_was_counted(
    tmp_path: Path, dtype: str, kind: str, mode: str, shape: tuple[int, int]
) -> None:
    path = tmp_path / "net.asni"
    written(path, dtype, kind, mode, shape)
    decoded(path, memory := Memory(path, UNLIMITED))
    for name, operation in OPERATIONS.items():
        assert peak(operation, path) < memory.taken - (16 << 20) + TABLES.get(name, 1 << 20), name


def test_who_trusts_a_file_allows_what_the_error_says(tmp_path: Path) -> None:
    path = tmp_path / "net.asni"
    weight = np.zeros((3000, 4000), np.float32)
    weight[7, 7] = 1
    assert pack({"weight": weight}, path).nonzeros == 1
    with pytest.raises(PackError, match=r"max_memory=([\d_]+)") as refused:
        load(path)
    needed = re.search(r"max_memory=([\d_]+)", str(refused.value))
    assert needed
    assert int(load(path, max_memory=int(needed[1]))["weight"].sum()) == 1


@pytest.mark.parametrize("network", NETWORKS)
def test_the_papers_networks_need_no_permission(tmp_path: Path, network: str) -> None:
    """However sparse they are: reading a file, and building the network beside its weights."""
    (tmp_path / "net.asni").touch()
    large = network == "resnet50"
    with torch.device("meta"):
        model = NETWORKS[network]((3, 224, 224) if large else (3, 32, 32), 1000 if large else 10)
    state = model.state_dict().values()
    memory = Memory(tmp_path / "net.asni")
    memory.take_tensors((each.numel(), each.itemsize) for each in state)
    memory = Memory(tmp_path / "net.asni")
    memory.take(2 * sum(each.numel() * each.itemsize for each in state))


def test_a_dense_file_never_needs_permission() -> None:
    """Packing takes its tensors, and WRITING bytes per element, of which each takes a byte of the file or more."""
    assert 1 + WRITING < FACTOR


def test_packing_stays_within_what_was_counted(tmp_path: Path) -> None:
    weight = torch.randn(256, 256, dtype=torch.float64)
    torch.save({"weight": weight[:1]}, tmp_path / "net.pt")
    pack(tmp_path / "net.pt", tmp_path / "net.asni")  # imports what it needs
    torch.save({"weight": weight * (torch.rand_like(weight) < 0.9)}, tmp_path / "net.pt")
    memory = Memory(tmp_path / "net.pt", UNLIMITED, work=WRITING)
    memory.take_tensors([(weight.numel(), 8)])
    assert peak(lambda path: pack(path, tmp_path / "net.asni"), tmp_path / "net.pt") < memory.taken


@pytest.mark.parametrize("read_it", [contents, lambda path: pack(path, path.with_suffix(".asni"))])
def test_an_expanded_tensor_is_refused_before_it_takes_memory(tmp_path: Path, read_it: Operation) -> None:
    for elements in (10**8, 10**12):
        torch.save({"weight": torch.zeros(1).expand(elements)}, tmp_path / "net.pt")
        with pytest.raises(PackError, match=r"net\.pt: reading it may take"):
            read_it(tmp_path / "net.pt")
    torch.save({"weight": torch.ones(1).expand(3, 4)}, tmp_path / "net.pt")
    read_it(tmp_path / "net.pt")


def test_a_compressed_state_dict_is_refused(tmp_path: Path) -> None:
    torch.save({"weight": torch.zeros(10**5)}, tmp_path / "stored.pt")
    with zipfile.ZipFile(tmp_path / "stored.pt") as stored, zipfile.ZipFile(tmp_path / "net.pt", "w") as packed:
        for record in stored.namelist():
            packed.writestr(record, stored.read(record), zipfile.ZIP_DEFLATED)
    with pytest.raises(PackError, match=r"net\.pt: its content is compressed"):
        contents(tmp_path / "net.pt")


def forge_pickle(path: Path, content: bytes, zipped: bool) -> None:
    """Write a state_dict with other content than tensors, as torch.save would."""
    torch.save({"weight": torch.zeros(2)}, path, _use_new_zipfile_serialization=zipped)
    pickled = b"\x80\x02}" + content + b"s."
    if not zipped:
        data = path.read_bytes()
        start = data.index(b"\x80\x02}q\x00X\x06\0\0\0weight")
        path.write_bytes(data[:start] + pickled + data[data.index(b".\x80", start) + 1 :])
        return
    with zipfile.ZipFile(path) as saved:
        records = {name: saved.read(name) for name in saved.namelist()}
    with zipfile.ZipFile(path, "w") as forged:
        for name, record in records.items():
            forged.writestr(name, pickled if name.endswith("data.pkl") else record)


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"K\1cbuiltins\nbytearray\n\x8a\x05\0\0\0\0\2\x85R", "bytearray"),
        (b"K\1c__builtin__\nbytearray\n\x8a\x05\0\0\0\0\2\x85R", "bytearray"),
        (b")" + b"".join(b"q%ch%c\x86" % (place, place) for place in range(60)) + b"K\1", "shared values"),
        (b")" + 10**5 * b"\x85" + b"K\1", "nests more than 1000"),
        (b"K\1(X\0\0\1\0" + 2**16 * b"x" + b"q\0" + 10**4 * b"h\0" + b"t", "shared values"),
        (b"K\1](q\0(" + 10**4 * b"K\1" + b"e" + 10**4 * b"h\0" + b"t", "shared values"),
    ],
    ids=["bytearray", "bytearray of Python 2", "endless hash", "deep hash", "one text often", "one list often"],
)
def test_a_small_pickle_that_would_take_all_memory_or_for_ever_is_not_loaded(
    tmp_path: Path, content: bytes, reason: str, zipped: bool
) -> None:
    forge_pickle(tmp_path / "net.pt", content, zipped)
    for operation in (contents, lambda path: pack(path, tmp_path / "net.asni")):
        with pytest.raises(PackError, match=rf"net\.pt: .*{reason}"):
            operation(tmp_path / "net.pt")


@pytest.mark.parametrize("zipped", [True, False])
def test_checkpoints_of_a_training_are_read(tmp_path: Path, zipped: bool) -> None:
    model = torch.nn.TransformerEncoderLayer(8, 2)
    optimiser = torch.optim.AdamW([{"params": [each]} for each in model.parameters()], betas=(0.9, 0.999))
    for each in model.parameters():
        each.grad = torch.ones_like(each)
    optimiser.step()
    whole = model.state_dict()
    checkpoint = {
        "epoch": torch.tensor([1, 2]),
        "state_dict": whole,
        "optimizer_states": [optimiser.state_dict()],
        "hyper_parameters": {"sizes": ((1, 2), (1, 2)), ("a", ("b", 1)): {1, 2}, "noise": 1j, "key": b"bytes"},
        "dtype": torch.bfloat16,
        "shape": torch.Size([2, 3]),
        "device": torch.device("cpu"),
        "best": [whole] * 3,
        "rng": torch.get_rng_state(),
        "parameter": torch.nn.Parameter(torch.ones(2)),
    }
    torch.save(checkpoint, tmp_path / "net.ckpt", _use_new_zipfile_serialization=zipped)
    assert {each.name for each in contents(tmp_path / "net.ckpt").tensors} == set(whole)


def test_an_error_never_quotes_a_file_without_end(tmp_path: Path) -> None:
    long = "x" * 3000
    item = {"dtype": long, "shape": [2], "data_offsets": [0, 8]}
    (tmp_path / "net.safetensors").write_bytes(safetensors(json.dumps({long: item}), bytes(8)))
    write_ones(tmp_path / "net.asni", [{"name": "w", "dtype": long, "shape": [2], "sparse": False}], padding=0)
    for name in ("net.safetensors", "net.asni"):
        with pytest.raises(PackError, match=r"unknown element type") as raised:
            contents(tmp_path / name)
        assert len(str(raised.value)) < 1000


def test_a_limit_below_a_megabyte_is_shown_in_bytes(tmp_path: Path) -> None:
    torch.save({"weight": torch.ones(2)}, tmp_path / "net.pt")
    with pytest.raises(PackError, match=r"the limit is 1,000 bytes\. .* --max-memory 17MB, or max_memory=17_000_000 "):
        contents(tmp_path / "net.pt", max_memory=1000)


def safetensors(header: str, body: bytes) -> bytes:
    return struct.pack("<Q", len(header)) + header.encode() + body


@pytest.mark.parametrize("shape", ["[[0], 100000000000]", '["a", 100000000000]', str([2**62] * 40)])
def test_the_shape_of_a_safetensors_file_is_checked_before_it_is_multiplied(tmp_path: Path, shape: str) -> None:
    header = f'{{"a": {{"dtype": "F32", "shape": {shape}, "data_offsets": [0, 8]}}}}'
    (tmp_path / "net.safetensors").write_bytes(safetensors(header, bytes(8)))
    with pytest.raises(PackError, match=r"net\.safetensors: .*the shape or the offsets of a are not sizes"):
        contents(tmp_path / "net.safetensors")


def test_a_thousand_names_for_the_same_bytes_count_a_thousand_times(tmp_path: Path) -> None:
    item = {"dtype": "F32", "shape": [1 << 17], "data_offsets": [0, 1 << 19]}
    header = json.dumps({str(index): item for index in range(1000)})
    (tmp_path / "net.safetensors").write_bytes(safetensors(header, bytes(1 << 19)))
    with pytest.raises(PackError, match=r"net\.safetensors: reading it may take"):
        contents(tmp_path / "net.safetensors")


def test_a_name_that_occurs_twice_is_refused(tmp_path: Path) -> None:
    item = '"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}'
    (tmp_path / "net.safetensors").write_bytes(safetensors(f"{{{item}, {item}}}", bytes(8)))
    with pytest.raises(PackError, match=r"net\.safetensors: .*a occurs twice"):
        contents(tmp_path / "net.safetensors")


def test_external_data_that_an_onnx_model_names_a_thousand_times_is_refused(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    (tmp_path / "net.data").write_bytes(bytes(1 << 19))
    initialisers = []
    for index in range(1000):
        tensor = onnx.TensorProto(name=str(index), dims=[1 << 17], data_type=onnx.TensorProto.FLOAT)
        tensor.data_location = onnx.TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value="net.data")
        initialisers.append(tensor)
    graph = onnx.helper.make_graph([], "net", [], [], initialisers)
    (tmp_path / "net.onnx").write_bytes(onnx.helper.make_model(graph).SerializeToString())
    with pytest.raises(PackError, match=r"net\.onnx: reading it may take"):
        contents(tmp_path / "net.onnx")


@pytest.mark.parametrize("name", ["net.asni", "net.pt", "net.safetensors", "net.onnx"])
def test_what_is_no_regular_file_is_not_waited_for(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises(PackError, match=rf"{re.escape(name)}: cannot be read: it is a FIFO, not a file"):
        contents(tmp_path / name)


def test_a_header_of_many_empty_objects_is_counted_before_it_is_parsed(tmp_path: Path) -> None:
    path = tmp_path / "net.asni"
    pack({"weight": np.eye(3)}, path)
    anatomy = Anatomy.of(path.read_bytes())
    # Irregular enough not to be refused for how well it is compressed.
    rng = random.Random(0)
    anatomy.header["more"] = [[{}] * rng.randrange(9) for _ in range(30_000)]
    path.write_bytes(anatomy.assembled())
    read(path)
    with pytest.raises(PackError, match=r"net\.asni: reading it may take"):
        read(path, max_memory=24 << 20)

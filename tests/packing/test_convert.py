"""In and out of other formats."""

import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from asni.errors import PackError, UsageError
from asni.packing import contents, load, pack, unpack
from attack.anatomy import Anatomy
from tests.packing.same_bits import assert_same_bits

STATE = {
    "conv.weight": torch.tensor([0.0, 1.5, 0.0, -2.0, 0.0, 0.0, 0.5, 0.0]).reshape(2, 2, 1, 2),
    "conv.bias": torch.tensor([0.25, -0.0]),
    "half": torch.tensor([[1.0, 0.0, 3.0]], dtype=torch.bfloat16),
    "steps": torch.tensor(3),
}


def test_safetensors_go_in_and_out(tmp_path: Path) -> None:
    save_file(STATE, tmp_path / "in.safetensors")
    pack(tmp_path / "in.safetensors", tmp_path / "net.asni")
    unpack(tmp_path / "net.asni", tmp_path / "out.safetensors")
    restored = load_file(tmp_path / "out.safetensors")
    assert_same_bits({name: restored[name] for name in STATE}, STATE)


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "before torch 1.6"])
def test_a_saved_state_dict_goes_in(tmp_path: Path, zipped: bool) -> None:
    torch.save(STATE, tmp_path / "net.pt", _use_new_zipfile_serialization=zipped)
    pack(tmp_path / "net.pt", tmp_path / "net.asni")
    assert_same_bits(load(tmp_path / "net.asni"), STATE)


def test_sparse_rows_come_out_for_scipy(tmp_path: Path) -> None:
    pack(STATE, tmp_path / "net.asni")
    unpack(tmp_path / "net.asni", tmp_path / "net.npz", to="csr")
    with np.load(tmp_path / "net.npz", allow_pickle=False) as bundle:
        assert bundle["conv.weight.data"].tolist() == [1.5, -2.0, 0.5]
        assert bundle["conv.weight.indices"].tolist() == [1, 3, 2]
        assert bundle["conv.weight.indptr"].tolist() == [0, 2, 3]
        assert bundle["conv.weight.shape"].tolist() == [2, 2, 1, 2]
        assert bundle["conv.bias"].tolist() == [0.25, 0.0]
        assert bundle["half.data"].tolist() == [1.0, 3.0]


@pytest.mark.parametrize(("name", "said"), [("missing", "No such file"), ("text", r"\.safetensors.*state_dict")])
def test_what_cannot_be_packed_is_named(tmp_path: Path, name: str, said: str) -> None:
    (tmp_path / "text").write_text("hello")
    with pytest.raises(PackError, match=said) as raised:
        pack(tmp_path / name, tmp_path / "net.asni")
    assert str(tmp_path / name) in str(raised.value)


def test_code_in_a_pickle_is_not_run(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return os.mkdir, (str(tmp_path / "made"),)

    (tmp_path / "evil.pt").write_bytes(pickle.dumps(Evil()))
    with pytest.raises(PackError, match=r"evil\.pt"):
        pack(tmp_path / "evil.pt", tmp_path / "net.asni")
    assert not (tmp_path / "made").exists()


def test_a_checkpoint_is_not_a_state_dict(tmp_path: Path) -> None:
    torch.save({"epoch": 3, "model": STATE}, tmp_path / "checkpoint.pt")
    with pytest.raises(PackError, match=r"checkpoint\.pt: not a state_dict"):
        pack(tmp_path / "checkpoint.pt", tmp_path / "net.asni")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff" * 100,
        b"\x02\0\0\0\0\0\0\0[]",
        b"\x10\0\0\0\0\0\0\0" + b'{"a":{"dtype":1}',
        b"\x40\0\0\0\0\0\0\0" + b'{"a":{"dtype":"F32","shape":[99],"data_offsets":[0,396]}}'.ljust(64),
        b"\x40\0\0\0\0\0\0\0" + b'{"a":{"dtype":"F32","shape":[-1],"data_offsets":[4,0]}}'.ljust(64) + bytes(8),
    ],
)
def test_a_broken_safetensors_file_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "bad.safetensors").write_bytes(content)
    with pytest.raises(PackError, match=r"bad\.safetensors"):
        pack(tmp_path / "bad.safetensors", tmp_path / "net.asni")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(PackError, match=r"gone\.safetensors"):
        pack(tmp_path / "gone.safetensors", tmp_path / "net.asni")
    with pytest.raises(PackError, match=r"gone\.asni"):
        load(tmp_path / "gone.asni")


def test_an_unknown_format_is_refused(tmp_path: Path) -> None:
    pack(STATE, tmp_path / "net.asni")
    with pytest.raises(UsageError, match=r"'crs'.*'csr'"):
        unpack(tmp_path / "net.asni", tmp_path / "out", to="crs")


def test_sparse_rows_of_names_that_collide_are_refused(tmp_path: Path) -> None:
    pack({"a": torch.eye(3), "a.data": torch.ones(5)}, tmp_path / "net.asni")
    with pytest.raises(PackError, match=r"two tensors .*a\.data"):
        unpack(tmp_path / "net.asni", tmp_path / "net.npz", to="csr")


def test_a_view_that_is_not_what_lies_in_memory_goes_in(tmp_path: Path) -> None:
    values = torch.tensor([1 + 2j, 3 - 1j])
    pack({"conjugated": values.conj(), "negative": torch._neg_view(torch.tensor([2.0, -1.0]))}, tmp_path / "net.asni")
    restored = load(tmp_path / "net.asni")
    assert torch.equal(restored["conjugated"], torch.tensor([1 - 2j, 3 + 1j]))
    assert torch.equal(restored["negative"], torch.tensor([-2.0, 1.0]))


@pytest.mark.parametrize("name", ["a\0b", "/etc/passwd", "../up", "a/../../up", "a\\b", "n" * 70_000])
def test_names_that_an_npz_cannot_hold_are_refused(tmp_path: Path, name: str) -> None:
    """`a\\0b` and `a\\0c` would both become `a`; a path would leave the directory where somebody unzips the file."""
    pack({name: torch.eye(3), "other": torch.eye(3)}, tmp_path / "net.asni")
    with pytest.raises(PackError, match=r"net\.asni: an \.npz file cannot hold the name .*safetensors"):
        unpack(tmp_path / "net.asni", tmp_path / "net.npz", to="csr")
    assert not (tmp_path / "net.npz").exists()
    unpack(tmp_path / "net.asni", tmp_path / "net.safetensors")
    assert torch.equal(load_file(tmp_path / "net.safetensors")[name], torch.eye(3))


def test_names_that_numpy_takes_for_one_another_are_refused(tmp_path: Path) -> None:
    pack({"a": torch.ones(3), "a.npy": torch.zeros(3)}, tmp_path / "net.asni")
    with pytest.raises(PackError, match=r"two tensors .*a\.npy"):
        unpack(tmp_path / "net.asni", tmp_path / "net.npz", to="csr")


def test_names_with_folders_stay_as_they_are(tmp_path: Path) -> None:
    pack({"params/dense/kernel": torch.eye(3)}, tmp_path / "net.asni")
    unpack(tmp_path / "net.asni", tmp_path / "net.npz", to="csr")
    assert np.load(tmp_path / "net.npz")["params/dense/kernel.indices"].tolist() == [0, 1, 2]


def test_the_metadata_of_safetensors_is_no_name_for_a_tensor(tmp_path: Path) -> None:
    pack({"__metadata__": torch.eye(3)}, tmp_path / "net.asni")
    with pytest.raises(PackError, match=r"net\.asni: .*__metadata__"):
        unpack(tmp_path / "net.asni", tmp_path / "net.safetensors")
    assert not (tmp_path / "net.safetensors").exists()


def test_a_name_of_half_a_surrogate_pair_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PackError, match="surrogates"):
        pack({"\ud800": torch.eye(3)}, tmp_path / "net.asni")
    pack({"half": torch.eye(3)}, tmp_path / "net.asni")
    anatomy = Anatomy.of((tmp_path / "net.asni").read_bytes())
    anatomy.header["tensors"][0]["name"] = "\ud800"
    (tmp_path / "net.asni").write_bytes(anatomy.assembled())
    with pytest.raises(PackError, match=r"'\\ud800' of a tensor is not valid Unicode"):
        load(tmp_path / "net.asni")


def freed() -> torch.Tensor:
    tensor = torch.ones(3, 3)
    tensor.untyped_storage().resize_(0)
    return tensor


def quantised() -> torch.Tensor:
    return torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8)


def masked() -> Any:
    return torch.masked.masked_tensor(torch.ones(3), torch.tensor([True, False, True]))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: torch.ones(2, device="meta"), "meta device.* no values"),
        (lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]), "nested.*to_padded_tensor"),
        (lambda: torch.nested.nested_tensor([torch.ones(2)], layout=torch.jagged), "nested.*to_padded_tensor"),
        (quantised, r"quantised.*\.dequantize\(\)"),
        (lambda: torch.eye(3).to_sparse(), r"sparse_coo.*\.to_dense\(\)"),
        (lambda: torch.eye(3).to_sparse_csr(), r"sparse_csr.*\.to_dense\(\)"),
        (freed, "no memory of its own"),
        (lambda: nn.LazyLinear(3).weight, "no shape yet"),
        (masked, "MaskedTensor that cannot be packed"),
        (lambda: "text", "str, not a tensor"),
    ],
)
def test_what_is_no_plain_tensor_is_named_with_a_remedy(tmp_path: Path, make: Callable[[], Any], said: str) -> None:
    with pytest.raises(PackError, match=f"odd .*{said}"):
        pack({"fine": torch.eye(3), "odd": make()}, tmp_path / "net.asni")
    assert not (tmp_path / "net.asni").exists()


@pytest.mark.parametrize("read_it", [contents, lambda path: pack(path, path.with_suffix(".asni"))])
def test_a_file_of_such_tensors_is_named_too(tmp_path: Path, read_it: Callable[[Path], object]) -> None:
    torch.save({"odd": torch.ones(2, device="meta")}, tmp_path / "net.pt")
    with pytest.raises(PackError, match=r"net\.pt: odd is on the meta device"):
        read_it(tmp_path / "net.pt")
    torch.save({0: torch.ones(2)}, tmp_path / "net.pt")
    with pytest.raises(PackError, match=r"net\.pt: the name of a tensor must be a string, not 0"):
        read_it(tmp_path / "net.pt")


def test_a_tensor_of_an_unknown_type_is_named(tmp_path: Path) -> None:
    with pytest.raises(PackError, match="odd: "):
        pack({"odd": torch.ones(2, dtype=torch.complex128)}, tmp_path / "net.asni")

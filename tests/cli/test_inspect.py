"""asni inspect shows the tensors of any file of weights."""

import json
import os
import pickle
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

import asni
from tests.cli.calling import Command

STATE = {
    "first.weight": torch.tensor([[0.0, 1.0], [-2.0, 3.0]]),
    "first.bias": torch.tensor([0.0, 9.0]),
    "last.weight": torch.tensor([[4.0, -5.0], [6.0, -0.0]], dtype=torch.bfloat16),
    "steps": torch.tensor(3),
}


def save_onnx(state: dict[str, Tensor], path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    initialisers = [
        onnx.helper.make_tensor(name, onnx.TensorProto.BFLOAT16, list(tensor.shape), tensor.flatten().tolist())
        if tensor.dtype == torch.bfloat16
        else onnx.numpy_helper.from_array(tensor.numpy(), name)
        for name, tensor in state.items()
    ]
    graph = onnx.helper.make_graph([], "net", [], [], initialisers)
    onnx.save(onnx.helper.make_model(graph), path)


def save_checkpoint(state: dict[str, Tensor], path: Path) -> None:
    optimizer = torch.optim.SGD(nn.Linear(2, 2).parameters(), lr=0.1, momentum=0.9)
    torch.save({"epoch": 3, "model": state, "ema": state, "optimizer": optimizer.state_dict()}, path)


Save = Callable[[dict[str, Tensor], Path], object]


@pytest.mark.parametrize(
    ("name", "save"),
    [
        ("net.pt", torch.save),
        ("net.PTH", save_checkpoint),
        ("net.safetensors", save_file),
        ("net.onnx", save_onnx),
        ("net.asni", asni.pack),
    ],
)
def test_every_kind_of_file_shows_its_tensors(command: Command, tmp_path: Path, name: str, save: Save) -> None:
    save(STATE, tmp_path / name)
    found = json.loads(command("inspect", str(tmp_path / name), "--sparsity", "0.5", "--json").out)
    assert found["bytes"] == (tmp_path / name).stat().st_size
    assert (found["size"], found["nonzeros"]) == (11, 8)
    assert {each.pop("name"): list(each.values()) for each in found["tensors"]} == {
        "first.weight": [[2, 2], "float32", 16, 3, 1],
        "first.bias": [[2], "float32", 8, 1, None],
        "last.weight": [[2, 2], "bfloat16", 8, 3, 3],
        "steps": [[], "int64", 8, 1, None],
    }


def test_a_person_reads_a_table(command: Command, tmp_path: Path) -> None:
    torch.save({"small.weight": 0.1 * torch.ones(20, 1), "large.weight": torch.ones(2, 10)}, tmp_path / "net.pt")
    lines = command("inspect", str(tmp_path / "net.pt"), "--sparsity", "0.5").out.splitlines()
    assert [line.rstrip() for line in lines[:-2]] == [
        "tensor        shape     type  weights  nonzeros  nonzero %  left at 0.5",
        "small.weight   20x1  float32       20        20     100.00          ! 0",
        "large.weight   2x10  float32       20        20     100.00           20",
        "total                              40        40     100.00           20",
    ]
    assert lines[-2].endswith(f"net.pt: 2 tensors, {(tmp_path / 'net.pt').stat().st_size:,} bytes")
    assert lines[-1] == "! 1 tensor would nearly die: fewer than one weight left per ten outputs"
    assert "left" not in command("inspect", str(tmp_path / "net.pt")).out


def test_tied_weights_count_once(command: Command, tmp_path: Path) -> None:
    weight = torch.ones(3, 2)
    torch.save({"words.weight": weight, "head.weight": weight}, tmp_path / "net.pt")
    found = json.loads(command("inspect", str(tmp_path / "net.pt"), "--json").out)
    assert (found["size"], [each["name"] for each in found["tensors"]]) == (6, ["words.weight = head.weight"])


def test_the_threshold_is_that_of_a_pruner_to_the_last_tie(command: Command, tmp_path: Path) -> None:
    torch.manual_seed(0)
    weights = {f"{layer}.weight": torch.randn(30, 20).mul(8).round() / 8 for layer in range(4)}
    torch.save(weights, tmp_path / "net.pt")
    for sparsity in (0.05, 0.6, 0.9, 0.999):
        found = json.loads(command("inspect", str(tmp_path / "net.pt"), "--sparsity", str(sparsity), "--json").out)
        masks = asni.keep_largest(weights, round(2400 * (1 - sparsity)))
        expected = [int((masks[name] & (weight != 0)).sum()) for name, weight in weights.items()]
        assert [each["left"] for each in found["tensors"]] == expected


def test_external_data_of_an_onnx_model_is_read(command: Command, tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    save_onnx({"weight": torch.ones(40, 40)}, tmp_path / "whole.onnx")
    model = onnx.load(tmp_path / "whole.onnx")
    onnx.save(model, tmp_path / "net.onnx", save_as_external_data=True, location="net.data", size_threshold=0)
    assert json.loads(command("inspect", str(tmp_path / "net.onnx"), "--json").out)["nonzeros"] == 1600
    (tmp_path / "net.data").unlink()
    refused = command("inspect", str(tmp_path / "net.onnx"))
    assert (refused.status, refused.out) == (1, "")
    assert "net.data: cannot be read: No such file" in refused.err


def test_without_onnx_the_line_that_installs_it_is_said(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "net.onnx").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "onnx", None)
    assert "pip install 'asni[onnx]'" in command("inspect", str(tmp_path / "net.onnx")).err


@pytest.mark.parametrize("name", ["net.pt", "net.pth", "net.safetensors", "net.onnx", "net.asni", "net.txt"])
@pytest.mark.parametrize("content", [b"", b"hello", b"PK\x03\x04" + 99 * b"\xff", 300 * b"\x08\x7f"])
def test_a_foreign_file_is_named_without_a_traceback(
    command: Command, tmp_path: Path, name: str, content: bytes
) -> None:
    (tmp_path / name).write_bytes(content)
    refused = command("inspect", str(tmp_path / name))
    assert (refused.status, refused.out) == (1, "")
    assert refused.err.startswith("asni: ")
    assert str(tmp_path / name) in refused.err


@pytest.mark.parametrize("name", ["net.pt", "net.safetensors", "net.onnx"])
def test_a_missing_file_is_named(command: Command, tmp_path: Path, name: str) -> None:
    refused = command("inspect", str(tmp_path / name))
    assert refused.status == 1
    assert f"{tmp_path / name}: cannot be read: No such file" in refused.err


@pytest.mark.parametrize(
    ("name", "save"), [("net.pt", torch.save), ("net.safetensors", save_file), ("net.onnx", save_onnx)]
)
def test_a_truncated_file_is_refused(command: Command, tmp_path: Path, name: str, save: Save) -> None:
    save({"weight": torch.randn(50, 50)}, tmp_path / name)
    whole = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(whole[: len(whole) // 2])
    refused = command("inspect", str(tmp_path / name))
    assert (refused.status, refused.out) == (1, "")
    assert str(tmp_path / name) in refused.err


def test_a_whole_model_in_a_pickle_is_refused_and_not_run(command: Command, tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return os.mkdir, (str(tmp_path / "made"),)

    torch.save(nn.Linear(2, 2), tmp_path / "model.pt")
    assert "save model.state_dict() instead" in command("inspect", str(tmp_path / "model.pt")).err
    (tmp_path / "evil.pt").write_bytes(pickle.dumps(Evil(), protocol=2))
    assert "save model.state_dict() instead" in command("inspect", str(tmp_path / "evil.pt")).err
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"epoch": 3}, "holds no state_dict"),
        ([torch.ones(2)], "holds no state_dict"),
        ({}, "holds no tensors"),
        ({"generator": STATE, "critic": STATE}, "several state_dicts: generator, critic"),
        ({"weight": torch.ones(2, 2).to_sparse()}, "net.pt: weight has the layout torch.sparse_coo"),
    ],
)
def test_a_file_without_one_state_dict_says_what_to_save(
    command: Command, tmp_path: Path, content: object, said: str
) -> None:
    torch.save(content, tmp_path / "net.pt")
    assert said in command("inspect", str(tmp_path / "net.pt")).err


def test_what_cannot_be_ranked_is_named(command: Command, tmp_path: Path) -> None:
    torch.save({"weight": torch.full((2, 2), torch.nan)}, tmp_path / "net.pt")
    assert "net.pt: weight holds NaN" in command("inspect", str(tmp_path / "net.pt"), "--sparsity", "0.5").err
    refused = command("inspect", str(tmp_path / "net.pt"), "--sparsity", "90")
    assert (refused.status, "not 90" in refused.err) == (2, True)


def test_float8_and_integers_are_shown_but_not_ranked(command: Command, tmp_path: Path) -> None:
    state = {
        "eight": torch.eye(2).to(torch.float8_e4m3fn),
        "whole": torch.eye(2).to(torch.int8),
        "weight": torch.eye(2),
    }
    save_file(state, tmp_path / "net.safetensors")
    found = json.loads(command("inspect", str(tmp_path / "net.safetensors"), "--sparsity", "0.5", "--json").out)
    left = {each["name"]: (each["nonzeros"], each["left"]) for each in found["tensors"]}
    assert left == {"eight": (2, None), "whole": (2, None), "weight": (2, 2)}

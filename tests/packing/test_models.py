"""A model itself is packed, as its state_dict."""

from pathlib import Path

import pytest
import torch
from torch import nn

import asni
from asni.errors import UsageError
from asni.packing import read
from tests.packing.same_bits import assert_same_bits


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.norm, self.head = nn.Embedding(9, 4), nn.BatchNorm1d(4), nn.Linear(4, 9)
        with torch.no_grad():
            self.head.weight[::2] = 0.0


def test_a_model_comes_back_bit_for_bit_and_its_zeros_are_the_mask(tmp_path: Path) -> None:
    model = Network()
    inspection = asni.pack(model, tmp_path / "net.asni")
    assert_same_bits(asni.load(tmp_path / "net.asni"), model.state_dict())
    head = next(layer for layer in inspection.layers if layer.name == "head.weight")
    assert head.nonzeros == 16
    assert 0 < head.mask_bytes < 9 * 4
    again = Network()
    again.load_state_dict(asni.load(tmp_path / "net.asni"))
    assert_same_bits(again.state_dict(), model.state_dict())


def test_an_amenable_file_of_a_model_holds_its_prunable_weights_alone(tmp_path: Path) -> None:
    asni.pack(Network(), tmp_path / "net.asni", mode="amenable")
    assert list(read(tmp_path / "net.asni").tensors) == ["head.weight"]


def test_what_was_packed_is_told_in_one_line_and_shown_in_a_notebook(tmp_path: Path) -> None:
    model = nn.ModuleDict({"<img src=x>": nn.Linear(40, 20)})
    with torch.no_grad():
        next(model.parameters())[::2] = 0.0
    inspection = asni.pack(model, tmp_path / "net.asni")
    times = (800 + 20) * 4 / inspection.bytes
    line = f"exact, {inspection.bytes:,} bytes, {times:.1f} times smaller than the dense tensors, 400 nonzero weights"
    assert repr(inspection) == f"Inspection({line})"
    page = inspection._repr_html_()
    assert f"<p>Inspection({line})</p>" in page
    assert "&lt;img src=x&gt;.weight</td>" in page
    assert "50.0 %" in page
    assert "<img" not in page


def test_a_tied_model_is_stored_once(tmp_path: Path) -> None:
    model = Network()
    model.head.weight = model.words.weight
    asni.pack(model, tmp_path / "net.asni")
    assert_same_bits(asni.load(tmp_path / "net.asni"), model.state_dict())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((nn.Linear(2, 2),), r'asni\.pack\(model, "net\.asni"\)'),
        (("net.asni", nn.Linear(2, 2)), "needs the file to write"),
        ((3, "net.asni"), "not int"),
    ],
)
def test_what_is_missing_or_no_model_is_said(arguments: tuple[object, ...], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        asni.pack(*arguments)  # type: ignore[arg-type]

"""half and int8: smaller, with an error that is stated and bounded."""

from pathlib import Path

import pytest
import torch

from asni.errors import PackError
from asni.packing import inspect, load, pack


def sparse_weight() -> torch.Tensor:
    weight = torch.randn(64, 100, generator=torch.Generator().manual_seed(0))
    return weight * (weight.abs() > 1.2)


def test_half_rounds_layers_to_float16_and_nothing_else(tmp_path: Path) -> None:
    weight, bias = sparse_weight(), torch.randn(64)
    pack({"weight": weight, "bias": bias}, tmp_path / "net.asni", mode="half")
    state = load(tmp_path / "net.asni")
    assert state["weight"].dtype == torch.float32
    assert torch.equal(state["weight"], weight.half().float())
    assert torch.equal(state["bias"], bias)


def test_half_takes_bfloat16_where_float16_would_overflow(tmp_path: Path) -> None:
    weight = torch.tensor([[1e6, -3.14159], [0.0, 2.0]])
    layer = pack({"weight": weight}, tmp_path / "net.asni", mode="half").layers[0]
    assert layer.stored == "bfloat16"
    assert torch.equal(load(tmp_path / "net.asni")["weight"], weight.bfloat16().float())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_int8_errs_by_half_a_step_of_each_channel(tmp_path: Path, dtype: torch.dtype) -> None:
    weight = (sparse_weight() * torch.logspace(-3, 3, 64)[:, None]).to(dtype)
    pack({"weight": weight}, tmp_path / "net.asni", mode="int8")
    restored = load(tmp_path / "net.asni")["weight"]
    assert restored.dtype == dtype
    # Scales keep eight bits of mantissa, rounded up, and the result is rounded to the type once more.
    step = weight.abs().amax(dim=1, keepdim=True).double() / 127 * (1 + 2**-7)
    tolerance = 0.501 + 127 * torch.finfo(dtype).eps
    assert ((restored.double() - weight.double()).abs() <= tolerance * step).all()


def test_the_stated_error_is_the_error(tmp_path: Path) -> None:
    weight = sparse_weight()
    error = pack({"weight": weight}, tmp_path / "net.asni", mode="int8").layers[0].error
    assert error is not None
    difference = load(tmp_path / "net.asni")["weight"] - weight
    assert error["max"] == pytest.approx(float(difference.abs().max()), rel=0.01)
    assert error["rms"] == pytest.approx(float(difference.norm() / weight.norm()), rel=0.01)


def test_a_dead_channel_stays_dead(tmp_path: Path) -> None:
    weight = sparse_weight()
    weight[3] = 0
    pack({"weight": weight}, tmp_path / "net.asni", mode="int8")
    assert not load(tmp_path / "net.asni")["weight"][3].any()


def test_fewer_bits_make_a_smaller_file(tmp_path: Path) -> None:
    sizes = [pack({"w": sparse_weight()}, tmp_path / mode, mode=mode).bytes for mode in ("exact", "half", "int8")]
    assert sizes == sorted(sizes, reverse=True)
    assert inspect(tmp_path / "int8").mode == "int8"


@pytest.mark.parametrize("mode", ["half", "int8", "amenable"])
def test_infinity_cannot_be_rounded(tmp_path: Path, mode: str) -> None:
    with pytest.raises(PackError, match=r"layer\.weight"):
        pack({"layer.weight": torch.full((2, 2), float("inf"))}, tmp_path / "net.asni", mode=mode)


def test_what_half_rounds_to_nothing_is_no_weight(tmp_path: Path) -> None:
    weight = torch.tensor([[-1e-9, 1e-9, 1.0, 0.0]])
    layer = pack({"weight": weight}, tmp_path / "net.asni", mode="half").layers[0]
    assert (layer.nonzeros, layer.minus_zeros) == (1, 0)


def test_a_layer_that_int8_would_push_beyond_its_type_is_named(tmp_path: Path) -> None:
    with pytest.raises(PackError, match=r"wide .*float16"):
        pack({"wide": torch.tensor([[65504.0, 1.0]], dtype=torch.float16)}, tmp_path / "net.asni", mode="int8")

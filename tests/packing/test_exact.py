"""What goes in exactly comes out exactly."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from asni.errors import AsniError, PackError, UsageError
from asni.packing import inspect, load, pack, read
from tests.packing.same_bits import assert_same_bits

SHAPES = npst.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=9)
DTYPES = [
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2,
    torch.complex64, torch.bool, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8,
]  # fmt: skip


@st.composite
def tensors(draw: st.DrawFn) -> torch.Tensor:
    """Any bit pattern of any type, with as many zeros as drawn: NaN payloads and -0.0 included."""
    dtype, shape = draw(st.sampled_from(DTYPES)), draw(SHAPES)
    size = int(np.prod(shape))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    if dtype is torch.bool:
        return torch.from_numpy(rng.random(size) < 0.5).reshape(shape)
    width = torch.empty(0, dtype=dtype).element_size()
    values = rng.choice(rng.integers(0, 256, (draw(st.sampled_from([1, 2, 3, 300])), width), dtype=np.uint8), size)
    values[rng.random(size) < draw(st.sampled_from([0.0, 0.1, 0.9, 1.0]))] = 0
    return torch.from_numpy(values.reshape(-1)).view(dtype).reshape(shape)


@settings(max_examples=150)
@given(st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=8), tensors(), max_size=5))
def test_every_tensor_comes_back_bit_for_bit(
    tmp_path_factory: pytest.TempPathFactory, state: dict[str, torch.Tensor]
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.asni"
    pack(state, path)
    assert_same_bits(load(path), state)


def test_minus_zero_survives_and_plus_zero_is_the_mask(tmp_path: Path) -> None:
    weight = torch.zeros(4, 8)
    weight[1, 2], weight[3, 3] = -0.0, float("nan")
    layer = pack({"weight": weight}, tmp_path / "net.asni").layers[0]
    assert (layer.nonzeros, layer.minus_zeros) == (1, 1)
    assert_same_bits(load(tmp_path / "net.asni"), {"weight": weight})


def test_tied_weights_are_stored_once_and_come_back_apart(tmp_path: Path) -> None:
    weight = torch.randn(100, 100)
    once = pack({"a": weight}, tmp_path / "one.asni").bytes
    twice = pack({"a": weight, "b": weight}, tmp_path / "two.asni").bytes
    state = load(tmp_path / "two.asni")
    assert twice < once + 30
    tied, apart = inspect(tmp_path / "two.asni"), inspect(tmp_path / "one.asni")
    assert (tied.nonzeros, tied.dense_bytes) == (apart.nonzeros, apart.dense_bytes) == (10_000, 40_000)
    state["a"].zero_()
    assert torch.equal(state["b"], weight)


def test_arrays_of_numpy_go_in_and_out(tmp_path: Path) -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    pack({"weight": array, "steps": np.array(7)}, tmp_path / "net.asni")
    arrays = read(tmp_path / "net.asni").arrays
    assert arrays["weight"].tolist() == array.tolist()
    assert arrays["steps"].shape == ()


def test_an_all_zero_network_is_tiny_and_readable(tmp_path: Path) -> None:
    """The file is padded, so that its length justifies the memory that reading takes."""
    pack({"weight": torch.zeros(2000, 2000)}, tmp_path / "net.asni")
    assert inspect(tmp_path / "net.asni").bytes < 5000
    assert not load(tmp_path / "net.asni")["weight"].any()


def test_a_failed_pack_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "net.asni"
    pack({"weight": torch.ones(2, 2)}, path)
    before = path.read_bytes()
    with pytest.raises(AsniError, match="weight holds NaN"):
        pack({"weight": torch.full((2, 2), float("nan"))}, path, mode="half")
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_misspelt_mode_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"'exat'.*'exact'"):
        pack({"weight": torch.ones(2, 2)}, tmp_path / "net.asni", mode="exat")


@pytest.mark.parametrize("unreadable", [{0: torch.eye(3)}, {"deep": torch.ones([1] * 33)}], ids=["name", "shape"])
def test_what_could_not_be_read_again_is_refused_before_it_is_written(tmp_path: Path, unreadable: Any) -> None:
    pack({"weight": torch.eye(3)}, tmp_path / "net.asni")
    with pytest.raises(PackError, match=r"name of a tensor .*\b0$|deep has 33 dimensions"):
        pack(unreadable, tmp_path / "net.asni")
    assert torch.equal(load(tmp_path / "net.asni")["weight"], torch.eye(3))


def test_a_file_without_masks_has_no_entropy_of_masks(tmp_path: Path) -> None:
    assert pack({"bias": torch.ones(3)}, tmp_path / "net.asni").ratio is None

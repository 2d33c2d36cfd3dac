"""The codings of masks and values: right on anything, and small where there is something to gain."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asni.errors import PackError
from asni.packing.byte_coding import decode_block, encode_block, information
from asni.packing.fields import Reader, varint
from asni.packing.mask_coding import Mask, decode_mask, encode_mask
from asni.packing.value_coding import decode_values, encode_values


def random_mask(rows: int, columns: int, density: float, seed: int = 0) -> Mask:
    return np.random.default_rng(seed).random((rows, columns)) < density


def entropy(mask: Mask) -> float:
    return information(np.array([mask.sum(), mask.size - mask.sum()]))


@given(st.integers(1, 40), st.integers(1, 40), st.floats(0, 1), st.integers(0, 99))
def test_a_mask_comes_back(rows: int, columns: int, density: float, seed: int) -> None:
    mask = random_mask(rows, columns, density, seed)
    mask[seed % rows] = False
    assert (decode_mask(encode_mask(mask), rows, columns) == mask).all()


@pytest.mark.parametrize("density", [0.5, 0.2, 0.03, 0.003])
def test_a_random_mask_is_within_two_percent_of_its_entropy(density: float) -> None:
    mask = random_mask(300, 784, density)
    assert entropy(mask) <= len(encode_mask(mask)) <= 1.02 * entropy(mask)


@pytest.mark.parametrize("axis", [0, 1])
def test_dead_channels_and_dark_pixels_cost_next_to_nothing(axis: int) -> None:
    """As in the first layer of a network on MNIST, where the border is always dark."""
    mask = random_mask(300, 784, 0.05)
    dead = np.random.default_rng(1).random(mask.shape[axis]) < 0.5
    mask[dead if axis == 0 else (slice(None), dead)] = False
    alive = mask[~dead] if axis == 0 else mask[:, ~dead]
    assert len(encode_mask(mask)) < 1.05 * entropy(alive) < 0.95 * entropy(mask)
    assert (decode_mask(encode_mask(mask), 300, 784) == mask).all()


def test_two_of_four_sparsity_is_found() -> None:
    """Six patterns for four weights: log2(6) / 4 = 0.65 bits a weight, not one."""
    patterns = np.array([[1, 1, 0, 0], [1, 0, 1, 0], [1, 0, 0, 1], [0, 1, 1, 0], [0, 1, 0, 1], [0, 0, 1, 1]], bool)
    mask = patterns[np.random.default_rng(0).integers(0, 6, 64 * 64)].reshape(64, 256)
    assert len(encode_mask(mask)) < 0.7 * mask.size / 8
    assert (decode_mask(encode_mask(mask), 64, 256) == mask).all()


def test_dead_blocks_are_found() -> None:
    mask = np.kron(random_mask(8, 8, 0.5), np.ones((32, 32))).astype(bool)
    assert len(encode_mask(mask)) < 0.05 * entropy(mask)


@given(st.binary(max_size=2000))
def test_any_bytes_come_back_from_a_block(data: bytes) -> None:
    block = encode_block(np.frombuffer(data, np.uint8))
    reader = Reader(block)
    assert decode_block(reader, len(data)).tobytes() == data
    reader.end()
    assert len(block) <= len(data) + 1


@pytest.mark.parametrize("width", [1, 2, 4, 8])
@pytest.mark.parametrize("distinct", [1, 2, 3, 200, 256, 257, 5000])
def test_values_come_back(width: int, distinct: int) -> None:
    rng = np.random.default_rng(distinct)
    bits = rng.integers(0, 2 ** (8 * width) - 1, distinct, dtype=f"<u{width}")[rng.integers(0, distinct, 3000)]
    assert (decode_values(encode_values(bits), len(bits), bits.dtype) == bits).all()


def test_exponents_of_trained_weights_are_squeezed() -> None:
    """Weights of one layer share few exponents: about 5 of the 32 bits go."""
    weights = np.random.default_rng(0).normal(0, 0.05, 50_000).astype("<f4")
    assert len(encode_values(weights.view("<u4"))) < 0.86 * weights.nbytes


def test_two_values_cost_one_bit_each() -> None:
    """The amenable initialisation: sign by sign, plus the two numbers."""
    weights = np.where(np.random.default_rng(0).random(8000) < 0.5, 0.1, -0.2).astype("<f4")
    assert len(encode_values(weights.view("<u4"))) <= 1000 + 8 + 4


@given(st.integers(0, 2**63 - 1))
def test_integers_come_back(number: int) -> None:
    assert Reader(varint(number)).varint() == number


def test_an_endless_integer_is_refused() -> None:
    with pytest.raises(PackError, match="63 bits"):
        Reader(b"\xff" * 100).varint()

"""The equality that packing promises."""

from collections.abc import Mapping

import torch

from asni.packing.convert import from_torch


def assert_same_bits(state: Mapping[str, torch.Tensor], original: Mapping[str, torch.Tensor]) -> None:
    """Same names in the same order, same types and shapes, same bits: NaN payloads and the sign of zero included."""
    assert list(state) == list(original)
    for name, tensor in original.items():
        assert (state[name].dtype, state[name].shape) == (tensor.dtype, tensor.shape)
    restored, expected = from_torch(state), from_torch(original)
    for name in original:
        assert restored[name].bits.tobytes() == expected[name].bits.tobytes(), name

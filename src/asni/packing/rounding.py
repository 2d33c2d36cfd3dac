"""Weights with fewer bits: half precision, and eight bits with a scale per output channel."""

from typing import Any

import numpy as np

from asni.errors import PackError
from asni.packing.dtypes import DTYPES, DType, Float32, Tensor, from_float32

_INT8_LIMIT = 127
_MINUS_ZERO = 0x8000  # in float16 and bfloat16


def halve(name: str, tensor: Tensor) -> Tensor:
    """The tensor in float16, or in bfloat16 if float16 would overflow."""
    values = _finite(name, tensor)
    for dtype in (DTYPES["float16"], DTYPES["bfloat16"]):
        bits = from_float32(values, dtype)
        # A weight that rounds to -0.0 becomes +0.0, since -0.0 would be stored as a value.
        half = Tensor.from_bits(dtype, np.where(bits == _MINUS_ZERO, 0, bits).astype(bits.dtype), tensor.array.shape)
        if np.isfinite(half.to_float32()).all():
            return half
    raise PackError(f"{name} holds values beyond the range of half precision; pack it with mode 'exact'")


def widen(half: Tensor, dtype: DType) -> Tensor:
    """Convert a halved tensor back to its original element type."""
    values = half.to_float32().astype(dtype.numpy)
    return Tensor(dtype, values.reshape(half.array.shape))


def quantise(name: str, tensor: Tensor) -> tuple[Tensor, Float32]:
    """Integers q and scales s with w = s q: the largest weight of each output channel is about +-127."""
    rows = _finite(name, tensor).reshape(len(tensor.array), -1)
    scales = _round_up(np.abs(rows).max(axis=1) / np.float32(_INT8_LIMIT))
    steps = np.divide(rows, scales[:, None], out=np.zeros_like(rows), where=scales[:, None] > 0)
    integers = np.rint(steps).astype(np.int8)
    return Tensor(DTYPES["int8"], integers.reshape(tensor.array.shape)), scales


def dequantise(integers: Tensor, scales: Float32, dtype: DType) -> Tensor:
    """s q, in float32, rounded to the element type."""
    shape = integers.array.shape
    values = integers.array.reshape(shape[0], -1).astype(np.float32) * scales[:, None]
    return Tensor.from_bits(dtype, from_float32(values.reshape(-1), dtype), shape)


def rounding_error(before: Tensor, after: Tensor) -> dict[str, Any]:
    """Largest absolute error, and the root mean square of the error over that of the weights."""
    exact = before.to_float32().astype(np.float64)
    error = after.to_float32() - exact
    norm = float(np.linalg.norm(exact))
    relative = float(np.linalg.norm(error)) / norm if norm else 0.0
    return {"max": float(f"{np.abs(error).max():.3g}"), "rms": float(f"{relative:.3g}")}


def _round_up(scales: Float32) -> Float32:
    """Round up to a float32 whose lower 16 bits are zero, to make scales smaller."""
    return ((scales.view(np.uint32) + 0xFFFF) & 0xFFFF0000).view("<f4")


def _finite(name: str, tensor: Tensor) -> Float32:
    values = tensor.to_float32()
    if not np.isfinite(values).all():
        raise PackError(f"{name} holds NaN, infinity or values beyond float32; pack it with mode 'exact'")
    return values

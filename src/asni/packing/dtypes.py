"""The element types a file can hold; bfloat16 and float8, which NumPy lacks, are kept as bit patterns."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from asni.errors import PackError, shown

Array = npt.NDArray[Any]
Float32 = npt.NDArray[np.float32]


@dataclass(frozen=True)
class DType:
    """One element type: its name in PyTorch, its code in safetensors, and the NumPy type that stores it."""

    name: str
    safetensors: str
    numpy: np.dtype[np.generic]
    is_float: bool

    @property
    def bits(self) -> np.dtype[np.generic]:
        """The little-endian unsigned integer of the same width (bytes for complex numbers)."""
        return np.dtype(f"<u{min(self.numpy.itemsize, 8)}")


def _table() -> dict[str, DType]:
    rows = [
        ("float64", "F64", "<f8"), ("float32", "F32", "<f4"), ("float16", "F16", "<f2"),
        ("bfloat16", "BF16", "<u2"), ("float8_e4m3fn", "F8_E4M3", "u1"), ("float8_e5m2", "F8_E5M2", "u1"),
        ("complex64", "C64", "<c8"), ("bool", "BOOL", "?"),
        ("int64", "I64", "<i8"), ("int32", "I32", "<i4"), ("int16", "I16", "<i2"), ("int8", "I8", "i1"),
        ("uint64", "U64", "<u8"), ("uint32", "U32", "<u4"), ("uint16", "U16", "<u2"), ("uint8", "U8", "u1"),
    ]  # fmt: skip
    return {name: DType(name, code, np.dtype(carrier), "float" in name) for name, code, carrier in rows}


DTYPES = _table()
BY_SAFETENSORS = {dtype.safetensors: dtype for dtype in DTYPES.values()}


def of_name(name: object) -> DType:
    """The element type of that name, or PackError."""
    dtype = DTYPES.get(name) if isinstance(name, str) else None
    if dtype is None:
        raise PackError(f"unknown element type {shown(repr(name))} (known: {', '.join(DTYPES)})")
    return dtype


@dataclass(frozen=True)
class Tensor:
    """An array and its element type; the array of a bfloat16 or float8 tensor holds the bit patterns."""

    dtype: DType
    array: Array

    @classmethod
    def of(cls, array: Array) -> "Tensor":
        """Wrap a NumPy array.

        >>> Tensor.of(np.ones(2, np.float32)).dtype.name
        'float32'
        """
        dtype = of_name(array.dtype.name)
        return cls(dtype, array.astype(dtype.numpy, copy=False))

    @property
    def bits(self) -> Array:
        """All elements in order, as unsigned integers (64 bits for a complex number)."""
        return np.ascontiguousarray(self.array).reshape(-1).view(self.dtype.bits)

    @classmethod
    def from_bits(cls, dtype: DType, bits: Array, shape: tuple[int, ...]) -> "Tensor":
        return cls(dtype, bits.view(dtype.numpy).reshape(shape))

    @property
    def nonzeros(self) -> int:
        """How many elements are neither 0 nor -0.0.

        >>> Tensor.of(np.float16([1, 0, -0.0])).nonzeros
        1
        """
        # Shifted out: the sign, the only bit that is set in -0.0.
        return int(np.count_nonzero(self.bits << 1 if self.dtype.is_float else self.array))

    def to_float32(self) -> Float32:
        """The elements in order, as float32 (bfloat16 and float16 exactly; float64 rounded, and may overflow)."""
        if self.dtype.name == "bfloat16":
            return (self.bits.astype(np.uint32) << 16).view(np.float32)
        with np.errstate(over="ignore", invalid="ignore"):
            return self.array.reshape(-1).astype(np.float32)


def from_float32(values: Float32, dtype: DType) -> Array:
    """Bit patterns of `values` in another float type, rounded to nearest, ties to even."""
    if dtype.name == "bfloat16":
        wide = values.view(np.uint32)
        return ((wide + 0x7FFF + ((wide >> 16) & 1)) >> 16).astype("<u2")
    with np.errstate(over="ignore"):
        return values.astype(dtype.numpy).view(dtype.bits)

"""The amenable initialisation of a network: each layer's mask, the signs, and two numbers."""

from collections.abc import Mapping

import numpy as np

from asni.errors import PackError
from asni.packing.dtypes import Array, Tensor, from_float32


def layers_of(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights of the layers, which are all that an amenable initialisation holds."""
    layers = {name: tensor for name, tensor in tensors.items() if is_layer(tensor)}
    if not layers:
        raise PackError("no layer to pack: no float tensor has two dimensions or more")
    return layers


def is_layer(tensor: Tensor) -> bool:
    """Whether a tensor holds the weights of a layer: floats in two dimensions or more."""
    return tensor.dtype.is_float and tensor.array.ndim >= 2 and tensor.array.size > 0


def centroids(values: Array) -> dict[str, float | None]:
    """Mean of the positive and mean of the negative finite values; None if there are none.

    >>> centroids(np.array([1.0, 0.0, 3.0]))
    {'positive': 2.0, 'negative': None}
    """
    finite = np.isfinite(values)
    sides = {"positive": values[(values > 0) & finite], "negative": values[(values < 0) & finite]}
    return {side: float(chosen.mean(dtype=np.float64)) if len(chosen) else None for side, chosen in sides.items()}


def amenable_layer(name: str, tensor: Tensor) -> Tensor:
    """A layer's positive (negative) weights set to their mean.

    >>> amenable_layer("weight", Tensor.of(np.array([[1.0, 0.0], [3.0, -4.0]], np.float32))).array
    array([[ 2.,  0.],
           [ 2., -4.]], dtype=float32)
    """
    if tensor.dtype.name.startswith("float8"):
        raise PackError(f"{name} is {tensor.dtype.name}, which is too coarse for a mean; pack it with mode 'exact'")
    values = tensor.to_float32()
    if not np.isfinite(values).all():
        raise PackError(f"{name} holds NaN or infinity, so its mean is undefined")
    means = centroids(values)
    flat = np.zeros_like(values)
    flat[values > 0] = means["positive"] or 0.0
    flat[values < 0] = means["negative"] or 0.0
    return Tensor.from_bits(tensor.dtype, from_float32(flat, tensor.dtype), tensor.array.shape)

"""Converts image bytes, or a user's own floats, to normalised floats."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Values = Sequence[float] | NDArray[np.float64]
Pixels = NDArray[np.uint8 | np.float32]
"""Images (count, channels, height, width)."""

CHUNK_PIXELS = 1 << 20
ROUNDING = 1e-12
"""A variance of at most this fraction of the mean square is a constant channel, up to rounding."""


class Normalisation:
    """`(byte - mean) / std` by channel; mean and std are given on the scale of 0 to 1, where 1 is `white`.

    >>> Normalisation([0.5], [0.25], white=255)(np.array([[[[0, 255]]]], dtype=np.uint8))
    tensor([[[[-2.,  2.]]]])
    """

    def __init__(self, mean: Values, std: Values, *, white: float) -> None:
        deviation = np.array(std, dtype=np.float32).reshape(-1, 1, 1)
        self._scale = 1 / (np.float32(white) * deviation)
        self._shift = -np.array(mean, dtype=np.float32).reshape(-1, 1, 1) / deviation

    @classmethod
    def of(cls, images: Pixels) -> "Normalisation":
        """That which gives every channel of these images mean 0 and deviation 1; a constant channel becomes 0.

        >>> Normalisation.of(np.array([[[[10, 30]]]], dtype=np.uint8))(np.array([[[[20, 40]]]], dtype=np.uint8))
        tensor([[[[0., 2.]]]])
        """
        # Sums of bytes are exact in float64, so that they do not depend on the machine.
        total, squares = np.zeros((2, images.shape[1]))
        at_once = max(1, CHUNK_PIXELS // images[0].size)
        for first in range(0, len(images), at_once):
            values = images[first : first + at_once].astype(np.float64)
            total += values.sum((0, 2, 3))
            squares += np.square(values).sum((0, 2, 3))
        count = images.size // images.shape[1]
        mean, square = total / count, squares / count
        variance = square - np.square(mean)
        return cls(mean, np.sqrt(np.where(variance > ROUNDING * square, variance, 1)), white=1)

    def __call__(self, pixels: Pixels) -> Tensor:
        """Normalised images as float32."""
        # NumPy, not torch: on a busy machine, waiting for torch's threads takes a hundred times longer than this.
        floats = pixels.astype(np.float32)
        floats *= self._scale
        floats += self._shift
        return torch.from_numpy(floats)

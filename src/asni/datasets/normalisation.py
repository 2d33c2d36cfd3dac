"""Converts image bytes to normalised floats."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


class Normalisation:
    """`(byte - mean) / std` by channel; mean and std are given on the scale of 0 to 1, where 1 is `white`.

    >>> Normalisation([0.5], [0.25], white=255)(np.array([[[[0, 255]]]], dtype=np.uint8))
    tensor([[[[-2.,  2.]]]])
    """

    def __init__(self, mean: Sequence[float], std: Sequence[float], *, white: float) -> None:
        deviation = np.array(std, dtype=np.float32).reshape(-1, 1, 1)
        self._scale = 1 / (np.float32(white) * deviation)
        self._shift = -np.array(mean, dtype=np.float32).reshape(-1, 1, 1) / deviation

    def __call__(self, pixels: NDArray[np.uint8]) -> Tensor:
        """Images of bytes (count, channels, height, width) as float32."""
        # NumPy, not torch: on a busy machine, waiting for torch's threads takes a hundred times longer than this.
        floats = pixels.astype(np.float32)
        floats *= self._scale
        floats += self._shift
        return torch.from_numpy(floats)

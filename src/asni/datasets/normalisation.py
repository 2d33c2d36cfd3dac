"""From bytes to the numbers a network is fed."""

from collections.abc import Sequence

import torch
from torch import Tensor


class Normalisation:
    """`(byte - mean) / std` by channel; mean and std are given on the scale of 0 to `white`.

    >>> Normalisation([0.5], [0.25], white=255)(torch.tensor([[[[0, 255]]]], dtype=torch.uint8))
    tensor([[[[-2.,  2.]]]])
    """

    def __init__(self, mean: Sequence[float], std: Sequence[float], *, white: float) -> None:
        deviation = torch.tensor(std).view(-1, 1, 1)
        self._scale = 1 / (white * deviation)
        self._shift = -torch.tensor(mean).view(-1, 1, 1) / deviation

    def __call__(self, pixels: Tensor) -> Tensor:
        """Images of bytes (count, channels, height, width) as float32."""
        # In place after one conversion: measured faster than addcmul, and than promotion of bytes inside mul.
        return pixels.float().mul_(self._scale).add_(self._shift)

"""Random crops and flips of many small images at once."""

from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from asni.datasets.normalisation import Pixels

PADDING = 4


@dataclass(frozen=True)
class CropFlip:
    """One offset and one flip for each position of an epoch."""

    rows: NDArray[np.uint8]
    columns: NDArray[np.uint8]
    flips: NDArray[np.bool_]

    @classmethod
    def draw(cls, count: int, *, seed: int, epoch: int) -> "CropFlip":
        """Draw for a whole epoch at once, so that a resumed epoch or another rank gets the same values."""
        # The third number makes these draws independent of the permutation of the same seed and epoch.
        random = np.random.default_rng((seed, epoch, 1))
        rows, columns = random.integers(0, 2 * PADDING + 1, (2, count), dtype=np.uint8)
        return cls(rows, columns, random.integers(0, 2, count, dtype=np.uint8).astype(np.bool_))

    def apply(self, images: Pixels, positions: NDArray[np.int64]) -> Pixels:
        """Pad with zeros (black), crop back to size, and mirror, each image by the draw of its position."""
        count, channels, height, width = images.shape
        padded = np.zeros((count, channels, height + 2 * PADDING, width + 2 * PADDING), dtype=images.dtype)
        padded[:, :, PADDING:-PADDING, PADDING:-PADDING] = images
        windows = sliding_window_view(padded, (channels, height, width), axis=(1, 2, 3))[:, 0]
        crops = windows[np.arange(count), self.rows[positions], self.columns[positions]]
        flips = self.flips[positions]
        crops[flips] = crops[flips][..., ::-1]
        return crops

"""1,797 handwritten digits of 8x8 pixels, part of the package: no download is needed.

They are the test part of "Optical Recognition of Handwritten Digits" (E. Alpaydin and C. Kaynak, UCI Machine Learning
Repository, 1998, CC BY 4.0), in the order in which scikit-learn ships them as `digits.csv`; see NOTICE.md.
The first 1,500 are for training, the last 297 for testing.
"""

from importlib.resources import as_file, files
from pathlib import Path

import numpy as np

from asni.datasets.memory import Arrays, InMemory
from asni.datasets.normalisation import Normalisation
from asni.errors import UsageError

TRAIN = 1_500


def get(source: Path | None = None) -> Path:
    """The folder of the digits, inside the package."""
    if source is not None:
        raise UsageError("digits is part of the package and cannot be read from a folder")
    return Path(__file__).parent


def load() -> InMemory:
    """The digits; a pixel counts the ink in a 4x4 block, 0 to 16.

    >>> load().info
    Info(shape=(1, 8, 8), classes=10, train=1500, test=297)
    """
    with as_file(files("asni.datasets") / "digits.npz") as path, np.load(path, allow_pickle=False) as stored:
        images, labels = stored["images"], stored["labels"]
    arrays = Arrays(images[:TRAIN], labels[:TRAIN], images[TRAIN:], labels[TRAIN:])
    return InMemory(arrays, 10, Normalisation([0.3051], [0.3750], white=16))

"""A dataset of a user's own arrays, and what these must be.

Images are uint8 or float32, grey as (n, height, width) or by channel as (n, channels, height, width). Labels are
integers from 0 on; each occurs in the training set. `source` names the data in errors.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from asni.datasets.info import Info
from asni.errors import AsniError, UsageError

if TYPE_CHECKING:
    from asni.datasets.memory import Arrays, InMemory

NAMES = ("train_images", "train_labels", "test_images", "test_labels")
"""The arrays of an .npz file; a function returns them in this order."""


class Header(NamedTuple):
    """What is known of an array before its values are read."""

    shape: tuple[int, ...]
    dtype: "np.dtype[Any]"


def sizes(source: str, headers: Mapping[str, Header], train_labels: NDArray[Any]) -> Info:
    """The sizes of a dataset with such arrays; an error for a dtype or a shape that is not accepted."""
    shape, other = (_image_shape(f"{source}: {name}", headers[name]) for name in ("train_images", "test_images"))
    if shape != other:
        raise UsageError(f"{source}: training images are {shape}, but test images {other} (channels, height, width).")
    for part in ("train", "test"):
        labels, images = headers[f"{part}_labels"], headers[f"{part}_images"].shape[0]
        if not np.issubdtype(labels.dtype, np.integer) or len(labels.shape) != 1:
            raise UsageError(
                f"{source}: {part}_labels must be one integer per image, not {labels.dtype} of shape {labels.shape}."
            )
        if labels.shape[0] != images or not images:
            raise UsageError(f"{source}: {part}_images holds {images} images, {part}_labels {labels.shape[0]} labels.")
    train, test = (headers[name].shape[0] for name in ("train_labels", "test_labels"))
    return Info(shape, _classes(source, train_labels), train, test)


def in_memory(source: str, arrays: Mapping[str, NDArray[Any]]) -> "tuple[InMemory, Arrays]":
    """A dataset of the arrays by NAMES, normalised by the mean and the deviation of the training images."""
    from asni.datasets.memory import Arrays, InMemory
    from asni.datasets.normalisation import Normalisation

    headers = {name: Header(array.shape, array.dtype) for name, array in arrays.items()}
    info = sizes(source, headers, arrays["train_labels"])
    for name in ("train_images", "test_images"):
        _require_finite(f"{source}: {name}", arrays[name])
    kept = Arrays(**{name: _with_channels(array) for name, array in arrays.items()})
    try:
        return InMemory(kept, info.classes, Normalisation.of(kept.train_images)), kept
    except AsniError as error:
        raise UsageError(f"{source}: {error}") from error


def _image_shape(where: str, header: Header) -> tuple[int, int, int]:
    shape, dtype = header
    if dtype not in (np.uint8, np.float32):
        raise UsageError(f"{where} holds {dtype}; images must be uint8 or float32.")
    if len(shape) not in (3, 4) or not all(shape[1:]):
        raise UsageError(f"{where} has shape {shape}; it must be (n, height, width) or (n, channels, height, width).")
    if len(shape) == 3:
        return 1, shape[1], shape[2]
    if shape[3] in (1, 3, 4) and shape[1] not in (1, 3, 4):
        raise UsageError(
            f"{where} has shape {shape}, which looks like (n, height, width, channels). "
            "Images must be (n, channels, height, width): transpose them by (0, 3, 1, 2)."
        )
    return shape[1], shape[2], shape[3]


def _classes(source: str, train_labels: NDArray[Any]) -> int:
    found = np.unique(train_labels)
    if len(found) < 2:
        raise UsageError(f"{source}: train_labels must hold at least two classes, not only {found.tolist()}.")
    if found[0] or found[-1] != len(found) - 1:
        missing = next(label for label in range(len(found)) if label not in found)
        raise UsageError(
            f"{source}: train_labels go from {found[0]} to {found[-1]} without a {missing}. "
            f"Labels of {len(found)} classes must be 0 to {len(found) - 1}."
        )
    return len(found)


def _require_finite(where: str, images: NDArray[Any]) -> None:
    if images.dtype == np.float32 and not np.isfinite(images.sum(dtype=np.float64)):
        broken = next(number for number, image in enumerate(images) if not np.isfinite(image).all())
        raise UsageError(f"{where}: image {broken} holds NaN or infinity.")


def _with_channels(array: NDArray[Any]) -> NDArray[Any]:
    return array[:, None] if array.ndim == 3 else array

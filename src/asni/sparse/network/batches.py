"""What a user hands over for a step: the kernels read memory as it should be, so that it is looked at before."""

import numpy as np

from asni.engine.graph import Array
from asni.errors import UsageError
from asni.sparse.steps import Shape, Steps, UnsupportedError


def checked_images(images: Array, shape: Shape) -> Array:
    """Images of a shape as they lie in memory for the kernels."""
    found = tuple(images.shape[1:])
    if (*found, 1, 1)[: max(3, len(found))] != shape[1:]:
        raise UsageError(f"images of shape {found} for a network that was made for {shape[1:]}.")
    if images.dtype != np.float32:
        raise UsageError(f"images of {images.dtype}: the kernels train on float32.")
    return np.ascontiguousarray(images)


def require_size(steps: Steps, items: int, most: int) -> None:
    """Refuse a batch that is too large for the memory of the kernels, or too small for batch norm."""
    if not 1 <= items <= most:
        raise UsageError(f"a batch of {items} images for kernels that were made for 1 to {most}.")
    if items == 1:
        for step in steps.steps:
            if step.kind == "batch_norm" and steps.shapes[step.output][2:] == (1, 1):
                raise UsageError(
                    f"{step.name}: batch norm needs more than one value in each channel, and gets one image."
                )


def checked_labels(labels: Array, items: int, classes: int) -> Array:
    """A class for each image, as the labels lie in memory for the kernels."""
    if labels.shape != (items,) or labels.dtype != np.int64:
        raise UsageError(f"labels of shape {labels.shape} and {labels.dtype} for {items} images: one int64 for each.")
    # Seen without a sign, a negative label is a large one: a small network would notice a second look.
    if labels.view(np.uint64).max() >= classes:
        wrong = labels[(labels < 0) | (labels >= classes)][0]
        raise UsageError(f"a label of {wrong} for a network with {classes} classes.")
    return np.ascontiguousarray(labels)


def require_running_statistics(steps: Steps) -> None:
    """Refuse batch norm that evaluates by the statistics of a batch: the kernels take a large one part by part."""
    for step in steps.steps:
        if step.kind == "batch_norm" and "running_mean" not in step.parameters:
            raise UnsupportedError(f"{step.name}: batch norm without running statistics cannot be evaluated in parts")

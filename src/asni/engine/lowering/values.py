"""What names stand for while a graph is lowered: constants, and values with the shape of a whole batch."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from asni.engine.graph import BATCH, Array
from asni.engine.steps import Shape

MOST_DIMENSIONS = 8
MOST_ELEMENTS = 2**40


@dataclass(frozen=True)
class Value:
    """What a step makes, or an input. At most one dimension is a multiple of `BATCH`, and the batch is outermost in it.

    So an item of the batch is a contiguous range of that dimension.
    """

    name: str
    shape: Shape


Operand = Value | Array


def is_batch(dimension: int) -> bool:
    """Whether a dimension, or a number in the arithmetic of shapes, depends on the batch size."""
    return dimension != 0 and dimension % BATCH == 0


def batch_axis(shape: Sequence[int]) -> int | None:
    """Which dimension carries the batch."""
    return next((axis for axis, dimension in enumerate(shape) if is_batch(dimension)), None)


def item_shape(shape: Sequence[int]) -> Shape:
    """The shape of one item: the batch size is 1."""
    return tuple(dimension // BATCH if is_batch(dimension) else dimension for dimension in shape)


def fault_of(shape: Sequence[int]) -> str | None:
    """Why no value may have this shape."""
    if len(shape) > MOST_DIMENSIONS:
        return f"{len(shape)} dimensions; at most {MOST_DIMENSIONS} are supported"
    if any(dimension < 1 for dimension in shape):
        return f"the shape {shown_shape(shape)} has a dimension below 1"
    if any((dimension > BATCH and not is_batch(dimension)) or dimension >= BATCH**2 for dimension in shape):
        return f"the shape {shown_shape(shape)} has a dimension that is too large"
    if sum(map(is_batch, shape)) > 1:
        return f"the batch size is in two dimensions of {shown_shape(shape)}, so items of a batch would mix"
    if prod(item_shape(shape)) > MOST_ELEMENTS:
        return f"the shape {shown_shape(shape)} has too many elements"
    return None


def shown_shape(shape: Sequence[int]) -> str:
    """A shape in a message, with N for the batch size."""
    return "(" + ", ".join(_shown_dimension(dimension) for dimension in shape[: 2 * MOST_DIMENSIONS]) + ")"


def _shown_dimension(dimension: int) -> str:
    if not is_batch(dimension):
        return str(dimension)
    return "N" if dimension == BATCH else f"{dimension // BATCH}N"

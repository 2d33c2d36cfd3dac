"""When a layer counts as dead; without torch, so that files can be judged too."""

import math
from collections.abc import Sequence


def is_nearly_empty(alive: int, shape: Sequence[int]) -> bool:
    """Whether almost no signal passes through a layer: fewer than one weight lives per four places of its longest side.

    >>> is_nearly_empty(24, (10, 100)), is_nearly_empty(25, (10, 100))
    (True, False)
    """
    return math.prod(shape) > 0 and 4 * alive < max(shape)

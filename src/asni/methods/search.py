"""Finding the setting that leaves a wanted number of weights, where a method cannot be told the number."""

import math
from collections.abc import Callable, Mapping
from statistics import linear_regression

from asni.errors import AsniError

TRAININGS = 15
ONE_SIDED = 4
NEAR = 0.2
NEAREST = 3


def search(weights_at: Callable[[float], int], wanted: int, *, low: float, high: float, tolerance: float) -> float:
    """The setting between `low` (many weights) and `high` (few) that ends within `tolerance` of the wanted number.

    Each try is a whole training, so the next one is placed where a straight line through the logarithms of what the
    two nearest tries ended with meets the wanted number, or in the middle after two tries on the same side of it. After
    four, and none on the other side, it is the end itself: what that does not reach, nothing between will.

    Near the number chance decides: a hair's difference in the setting can move a training's end by some per cent. There
    the line goes through the three nearest tries; closing in on two would trust that each is on its side by right.

    >>> round(search(lambda setting: round(1000 * 2 ** -setting), 100, low=0, high=10, tolerance=0.02), 2)
    3.32
    """
    tried: dict[float, int] = {}
    above, below = (low, math.inf), (high, 0.0)
    sides: list[bool] = []
    for _ in range(TRAININGS):
        stuck = len(sides) > 1 and sides[-1] == sides[-2]
        last = len(sides) >= ONE_SIDED and len({*sides}) == 1
        near = above[1] <= (1 + NEAR) * wanted and below[1] >= (1 - NEAR) * wanted
        if last:
            setting = high if sides[0] else low
        elif near and (fitted := _on_line(tried, wanted)) not in tried:
            setting = fitted
        else:
            setting = (above[0] + below[0]) / 2 if stuck else _between(above, below, wanted)
        tried[setting] = weights = weights_at(setting)
        if abs(weights - wanted) <= tolerance * wanted:
            return setting
        sides.append(weights > wanted)
        if last and len({*sides}) == 1:
            break
        if weights > wanted:
            above = (setting, weights)
        else:
            below = (setting, weights)
    nearest = min(tried.values(), key=lambda weights: abs(weights - wanted))
    raise AsniError(
        f"{len(tried)} trainings came no nearer to {wanted:,} weights than {nearest:,}. "
        "Ask for another sparsity, or train longer."
    )


def _between(above: tuple[float, float], below: tuple[float, float], wanted: int) -> float:
    (low, many), (high, few) = above, below
    share = 0.5
    if many < math.inf and few > 0:
        share = math.log(many / wanted) / math.log(many / few)
    return low + (high - low) * min(max(share, 0.05), 0.95)


def _on_line(tried: Mapping[float, int], wanted: int) -> float:
    some = [(math.log(weights / wanted), setting) for setting, weights in tried.items() if weights]
    nearest = sorted(some, key=lambda each: abs(each[0]))[:NEAREST]
    settings = [setting for _, setting in nearest]
    return min(max(linear_regression(*zip(*nearest, strict=True)).intercept, min(settings)), max(settings))

"""Finding the setting that leaves a wanted number of weights, where a method cannot be told the number."""

import math
from collections.abc import Callable, Mapping
from itertools import count, pairwise
from statistics import mean

from asni.errors import AsniError

TRAININGS = 15
ONE_SIDED = 4

# How far, in the logarithm of the number of weights, tries lie from the wanted number.
NEAR = 0.15
IN_SIGHT = 1.2
BEYOND_CHANCE = 0.2


def search(weights_at: Callable[[float], int], wanted: int, *, low: float, high: float, tolerance: float) -> float:
    """The setting between `low` (many weights) and `high` (few) that ends within `tolerance` of the wanted number.

    Each try is a whole training, so the next one is placed where a straight line through the logarithms of what the
    two nearest tries ended with meets the wanted number, or in the middle after two tries on the same side of it. After
    four, and none on the other side, it is the end itself: what that does not reach, nothing between will.

    Near the number chance decides: a hair's difference in the setting can move a training's end by some per cent, and
    closing in on two tries would trust that each is on its side by right. There the next try follows the trend of all.

    >>> round(search(lambda setting: round(1000 * 2 ** -setting), 100, low=0, high=10, tolerance=0.02), 2)
    3.32
    """
    tried: dict[float, int] = {}
    above, below = (low, math.inf), (high, 0.0)
    sides: list[bool] = []
    for _ in range(TRAININGS):
        stuck = len(sides) > 1 and sides[-1] == sides[-2]
        last = len(sides) >= ONE_SIDED and len({*sides}) == 1
        if last:
            setting = high if sides[0] else low
        else:
            closing = (above[0] + below[0]) / 2 if stuck else _between(above, below, wanted)
            setting = _despite_chance(closing, tried, wanted, tolerance / 4)
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


def _despite_chance(closing: float, tried: Mapping[float, int], wanted: int, apart: float) -> float:
    """`closing`, or the next setting along the trend where chance shows: where a higher setting has left more weights,
    or where `closing` and a setting that was tried are less than half of `apart` from each other on the trend.

    The trend has its slope from the two outermost tries in sight, and its height from the mean of the near ones. A try
    along it stays `apart` from all others, since settings that are all but equal may share their luck.
    """
    misses = [(setting, math.log(weights / wanted)) for setting, weights in sorted(tried.items()) if weights]
    in_sight = [each for each in misses if abs(each[1]) <= IN_SIGHT]
    near = [each for each in in_sight if abs(each[1]) <= NEAR]
    if not near or in_sight[0][1] - in_sight[-1][1] < BEYOND_CHANCE:
        return closing
    (first, most), (last, fewest) = in_sight[0], in_sight[-1]
    slope = (fewest - most) / (last - first)
    step = apart / -slope
    falls = all(after <= before for (_, before), (_, after) in pairwise(in_sight))
    if falls and all(abs(closing - setting) >= step / 2 for setting in tried):
        return closing
    crossing = mean(setting for setting, _ in near) - mean(miss for _, miss in near) / slope
    around = (crossing + sign * steps * step for steps in count() for sign in (1, -1))
    # A shade less than a step, for the rounding of what lies exactly one step apart.
    setting = next(each for each in around if all(abs(each - other) > 0.99 * step for other in tried))
    return setting if first < setting < last else closing

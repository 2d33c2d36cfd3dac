"""Searches for the setting that leaves a wanted number of weights, for methods without a sparsity target."""

import math
from collections.abc import Callable, Mapping
from itertools import count, pairwise
from statistics import mean

from asni.errors import AsniError

TRAININGS = 15
ONE_SIDED = 4

# The bracket is guaranteed to be halved this often. The other trainings are for interpolations that miss.
HALVINGS = 12

# In log(number of weights): tries within NEAR of the wanted number are near it, and outermost tries that differ by
# BEYOND_CHANCE show a trend.
NEAR = 0.15
BEYOND_CHANCE = 0.2


def search(weights_at: Callable[[float], int], wanted: int, *, low: float, high: float, tolerance: float) -> float:
    """The setting between `low` (many weights) and `high` (few) that ends within `tolerance` of the wanted number.

    Each try is a full training, so the next setting is interpolated: it is where a straight line through the logarithms
    of the two nearest results meets the wanted number, or the middle after two tries on the same side of it. After four
    tries, all on the same side, the next try is the end itself: if that misses the number, so does everything between.

    The search never leaves the bracket of the two nearest tries, and halves it often enough: a falling curve that is
    within the tolerance over 1/4096 of the way from `low` to `high` is always found.

    Near the wanted number the results are noisy: a tiny change of the setting can change the number of weights by a few
    percent, so a try may be on the wrong side of the bracket. The search detects noise if a higher setting has left
    more weights, or if the bracket is narrower than 1/4096. From then on, the next try follows the trend of all tries.

    >>> round(search(lambda setting: round(1000 * 2 ** -setting), 100, low=0, high=10, tolerance=0.02), 2)
    3.32
    """
    tried: dict[float, int] = {}
    above, below = (low, math.inf), (high, 0.0)
    sides: list[bool] = []
    narrow = (high - low) / 2**HALVINGS
    for left in reversed(range(TRAININGS)):
        stuck = len(sides) > 1 and sides[-1] == sides[-2]
        last = len(sides) >= ONE_SIDED and len({*sides}) == 1
        if last:
            setting = high if sides[0] else low
        else:
            middle = (above[0] + below[0]) / 2
            setting = middle if stuck else _between(above, below, wanted, widest=narrow * 2**left)
            if below[0] - above[0] < narrow or not _falls(tried):
                setting = _along_the_trend(tried, wanted, apart=tolerance / 4, otherwise=setting)
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
        f"{len(tried)} trainings did not reach {wanted:,} weights; the closest ended with {nearest:,}. "
        "Choose another sparsity, or train longer."
    )


def _between(above: tuple[float, float], below: tuple[float, float], wanted: int, *, widest: float) -> float:
    """Where the line meets the wanted number, moved so that neither side of the bracket is wider than `widest`."""
    (low, many), (high, few) = above, below
    share = 0.5
    if many < math.inf and few > 0:
        share = math.log(many / wanted) / math.log(many / few)
    setting = low + (high - low) * min(max(share, 0.05), 0.95)
    return min(max(setting, high - widest), low + widest)


def _falls(tried: Mapping[float, int]) -> bool:
    return all(tried[lower] >= tried[higher] for lower, higher in pairwise(sorted(tried)))


def _along_the_trend(tried: Mapping[float, int], wanted: int, *, apart: float, otherwise: float) -> float:
    """The next setting along the trend, or `otherwise` if no trend is larger than the noise.

    The slope comes from the two outermost tries, the offset from the mean of the near ones. The new setting stays
    `apart` from all others, since nearly equal settings may have the same noise.
    """
    misses = [(setting, math.log(weights / wanted)) for setting, weights in sorted(tried.items()) if weights]
    near = [each for each in misses if abs(each[1]) <= NEAR]
    if not near or misses[0][1] - misses[-1][1] < BEYOND_CHANCE:
        return otherwise
    (first, most), (last, fewest) = misses[0], misses[-1]
    slope = (fewest - most) / (last - first)
    step = apart / -slope
    crossing = mean(setting for setting, _ in near) - mean(miss for _, miss in near) / slope
    around = (crossing + sign * steps * step for steps in count() for sign in (1, -1))
    # Slightly less than a step, since settings exactly one step apart are subject to rounding.
    setting = next(each for each in around if all(abs(each - other) > 0.99 * step for other in tried))
    return setting if first < setting < last else otherwise

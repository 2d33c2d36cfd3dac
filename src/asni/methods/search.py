"""Finding the setting that leaves a wanted number of weights, where a method has no sparsity target."""

import math
from collections.abc import Callable, Mapping
from itertools import count, pairwise
from statistics import mean

from asni.errors import AsniError

TRAININGS = 15
ONE_SIDED = 4

# The bracket is sure to be halved this often. The other trainings are for lines that miss.
HALVINGS = 12

# In the logarithm of the number of weights: a try this close to the wanted number, and ends this far from each other.
NEAR = 0.15
BEYOND_CHANCE = 0.2


def search(weights_at: Callable[[float], int], wanted: int, *, low: float, high: float, tolerance: float) -> float:
    """The setting between `low` (many weights) and `high` (few) that ends within `tolerance` of the wanted number.

    Each try is a whole training, so the next one is placed where a straight line through the logarithms of what the
    two nearest tries ended with meets the wanted number, or in the middle after two tries on the same side of it. After
    four, and none on the other side, it is the end itself: what that does not reach, nothing between will.

    It never leaves the bracket of the two nearest tries, and halves it often enough: a falling curve that is within the
    tolerance over 1/4096 of the way from `low` to `high` is always met.

    Near the number chance decides: a hair's difference in the setting can move a training's end by some per cent, and
    closing in on two tries would trust that each is on its side by right. Chance shows where a higher setting has left
    more weights, or where the bracket is narrower than 1/4096. From there on the next try follows the trend of all.

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
        f"{len(tried)} trainings came no nearer to {wanted:,} weights than {nearest:,}. "
        "Ask for another sparsity, or train longer."
    )


def _between(above: tuple[float, float], below: tuple[float, float], wanted: int, *, widest: float) -> float:
    """Where the line meets the wanted number, or the nearest setting that leaves no bracket wider than `widest`."""
    (low, many), (high, few) = above, below
    share = 0.5
    if many < math.inf and few > 0:
        share = math.log(many / wanted) / math.log(many / few)
    setting = low + (high - low) * min(max(share, 0.05), 0.95)
    return min(max(setting, high - widest), low + widest)


def _falls(tried: Mapping[float, int]) -> bool:
    return all(tried[lower] >= tried[higher] for lower, higher in pairwise(sorted(tried)))


def _along_the_trend(tried: Mapping[float, int], wanted: int, *, apart: float, otherwise: float) -> float:
    """The next setting along the trend, or `otherwise` where no trend stands out from chance.

    The trend has its slope from the two outermost tries, and its height from the mean of the near ones. A try along it
    stays `apart` from all others, since settings that are all but equal may share their luck.
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
    # A shade less than a step, for the rounding of what lies exactly one step apart.
    setting = next(each for each in around if all(abs(each - other) > 0.99 * step for other in tried))
    return setting if first < setting < last else otherwise

"""The difference in accuracy between two networks, and whether the seeds are enough to tell it from noise."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import mean, stdev

# Two-sided 95 % quantiles of Student's t for 1 to 30 degrees of freedom; beyond, about 2.
_T = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)
_SMALL = 1.0  # points: a smaller difference that may be noise is not worth a number


@dataclass(frozen=True)
class Difference:
    """How many points of accuracy a network is above another: the mean over their `seeds`, and its standard error.

    The error is None if it is not known, as with one seed.
    """

    points: float
    error: float | None
    seeds: int

    @property
    def is_measurable(self) -> bool:
        """Whether zero lies outside the 95 % interval; what has no error is taken as it is."""
        if self.error is None:
            return True
        quantile = _T[self.seeds - 2] if self.seeds - 2 < len(_T) else 2.0
        return abs(self.points) >= quantile * self.error

    def __str__(self) -> str:
        size = abs(self.points)
        if not self.is_measurable and size < _SMALL:
            return "no measurable difference in accuracy"
        if size < 0.005:
            return "the same accuracy"
        digits = 0 if size >= 9.95 else 1 if size >= 0.095 else 2
        words = f"{size:.{digits}f} points {'lower' if self.points < 0 else 'higher'}"
        return words if self.is_measurable else f"about {words} (not certain from {self.seeds} seeds)"

    @property
    def signed(self) -> str:
        """With two decimals; what rounds to zero has no sign."""
        if abs(self.points) < 0.005:
            return "0.00"
        return f"{self.points:+.2f}".replace("-", "\N{MINUS SIGN}")


def difference(accuracies: Mapping[int, float], others: Mapping[int, float]) -> Difference:
    """Between accuracies by seed: seed by seed where both have the same seeds, or else between the means."""
    points = [accuracies[seed] - others[seed] for seed in accuracies if seed in others]
    if len(points) < 2:
        alone = points[0] if points else mean(accuracies.values()) - mean(others.values())
        return Difference(alone, None, len(points))
    return Difference(mean(points), stdev(points) / math.sqrt(len(points)), len(points))

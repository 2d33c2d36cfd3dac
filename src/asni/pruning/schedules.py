"""Sparsity schedules: pure functions of the epoch that reach the final sparsity exactly.

A schedule returns the fraction of the prunable weights that is zero after epoch `epoch` (counted from 0) of `epochs`.
The last pruning follows the second-to-last epoch, so that the network can recover in the last one; a one-epoch training
is pruned after its only epoch. A pruner that prunes every n steps counts n steps as one epoch.

>>> import asni
>>> for schedule in (asni.schedules.Sigmoid(0.9), asni.schedules.Polynomial(0.9), asni.schedules.Step(0.9)):
...     print([round(schedule(epoch, 20), 2) for epoch in range(0, 20, 4)])
[0.01, 0.04, 0.25, 0.67, 0.87]
[0.0, 0.48, 0.75, 0.87, 0.9]
[0.0, 0.0, 0.0, 0.9, 0.9]
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise

from asni.errors import UsageError
from asni.pruning.html import curve, paragraph

Schedule = Callable[[int, int], float]

LEAST_GAMMA, MOST_GAMMA = 1e-12, 1e12
"""Steeper than a step between two epochs and flatter than any training is long; beyond lie overflows."""

EPOCHS_DRAWN = 100
"""The length of the training for which a notebook draws a schedule."""


def last_pruning(epochs: int) -> int:
    """The epoch after which the network is pruned for the last time.

    >>> last_pruning(50), last_pruning(2), last_pruning(1)
    (48, 0, 0)
    """
    return max(epochs - 2, 0)


def kept(prunable: int, sparsity: float) -> int:
    """How many of the prunable weights live at this sparsity: `round(prunable * (1 - sparsity))`.

    >>> kept(266_200, 0.9702)
    7933
    """
    return round(prunable * (1 - sparsity))


def shares(schedule: Schedule, prunings: int) -> list[float]:
    """The fraction of the survivors that each pruning takes.

    >>> shares(Step(final=0.9), 12)[4:7]
    [0.0, 0.9, 0.0]
    """
    curve = [0.0, *(schedule(place, prunings) for place in range(prunings))]
    return [(after - before) / (1 - before) if before < 1 else 0.0 for before, after in pairwise(curve)]


class Drawn:
    """A schedule that a notebook shows as its curve."""

    def __call__(self, epoch: int, epochs: int) -> float:
        raise NotImplementedError

    def _repr_html_(self) -> str:
        fractions = [0.0, *(self(epoch, EPOCHS_DRAWN) for epoch in range(EPOCHS_DRAWN))]
        return paragraph(repr(self)) + paragraph(curve(fractions, end=f"epoch {EPOCHS_DRAWN}"))


@dataclass(frozen=True)
class Sigmoid(Drawn):
    """ASNI's schedule, solved for alpha: `p(e) = alpha * sigmoid((e - beta*E) / gamma)` with `p(E-2) = final`.

    gamma defaults to E/10, as the paper advises. `least` is the rule of the authors' program: a pruning that would take
    at most this fraction of the living weights, `(p(e) - p(e-1)) / (1 - p(e-1))`, is left out, and its share is lost.
    alpha is then solved with the rule, so that the schedule still ends at `final`.

    >>> schedule = Sigmoid(final=0.97)
    >>> [round(schedule(epoch, 50), 3) for epoch in (0, 25, 48, 49)]
    [0.007, 0.49, 0.97, 0.97]
    >>> schedule = Sigmoid(final=0.97, least=0.002)
    >>> [round(schedule(epoch, 50), 3) for epoch in (0, 2, 3, 48, 49)]
    [0.007, 0.007, 0.009, 0.97, 0.97]
    """

    final: float
    beta: float = 0.5
    gamma: float | None = None
    least: float = 0.0

    def __post_init__(self) -> None:
        if self.gamma is not None and not LEAST_GAMMA <= self.gamma <= MOST_GAMMA:
            raise UsageError(
                "gamma, the width of the sigmoid in epochs, must be above 0 "
                f"({LEAST_GAMMA:g} to {MOST_GAMMA:g}), not {self.gamma}."
            )
        if not 0 <= self.beta <= 1:
            raise UsageError(f"beta must be a fraction of the epochs from 0 to 1, not {self.beta}.")
        if not 0 <= self.least < 1:
            raise UsageError(f"least must be a fraction of the living weights from 0 to below 1, not {self.least}.")

    def __call__(self, epoch: int, epochs: int) -> float:
        if epoch >= last_pruning(epochs):
            return self.final
        return _curve(self, epochs)[epoch]

    def finer(self, times: float) -> "Sigmoid":
        """The same curve in so many times as many prunings: a width of so many times as many, and smaller shares.

        >>> Sigmoid(final=0.9, gamma=5, least=0.001).finer(10)
        Sigmoid(final=0.9, beta=0.5, gamma=50, least=0.0001)
        """
        gamma = None if self.gamma is None else self.gamma * times
        return replace(self, gamma=gamma, least=self.least / max(times, 1))

    def alpha(self, epochs: int) -> float:
        """The paper's alpha, in percent; it may exceed 100 in a short training, while p never does.

        It is infinite if the curve rises only after the last pruning.
        """
        sigmoid = math.exp(self._log_sigmoid(last_pruning(epochs), epochs))
        return 100 * _last_p(self, epochs) / sigmoid if sigmoid else math.inf

    @classmethod
    def from_alpha(
        cls,
        alpha: float,
        epochs: int,
        beta: float = 0.5,
        gamma: float | None = None,
        least: float = 0.0,
        prunable: int | None = None,
    ) -> "Sigmoid":
        """The schedule from the paper's parameters (alpha in percent).

        With `least` and the number of prunable weights, it ends with the whole number of weights that the authors'
        program leaves.

        >>> schedule = Sigmoid.from_alpha(98, epochs=50, gamma=5)
        >>> 410 + kept(266_200, schedule.final)
        8330
        >>> schedule = Sigmoid.from_alpha(98, epochs=50, gamma=5, least=0.001, prunable=266_200)
        >>> 410 + kept(266_200, schedule.final)
        8335
        """
        unit = cls(1.0, beta, gamma)
        p = alpha / 100 * math.exp(unit._log_sigmoid(last_pruning(epochs), epochs))
        if least and p < 1:
            p = _without_small_shares(unit._rising_to(p, epochs), least, prunable)[-1]
        return cls(p, beta, gamma, least)

    def _rising_to(self, p: float, epochs: int) -> list[float]:
        """The paper's p after each pruning, as a fraction, if it is `p` after the last one."""
        last = last_pruning(epochs)
        # The quotient of two sigmoids through their logarithms: exactly 1 at the end, and no overflow on the way.
        logarithms = [self._log_sigmoid(epoch, epochs) for epoch in range(last + 1)]
        return [p * math.exp(logarithm - logarithms[last]) for logarithm in logarithms]

    def _log_sigmoid(self, epoch: int, epochs: int) -> float:
        gamma = epochs / 10 if self.gamma is None else self.gamma
        return log_sigmoid((epoch - self.beta * epochs) / gamma)


@lru_cache
def _curve(schedule: Sigmoid, epochs: int) -> list[float]:
    """The fraction that is pruned after each pruning."""
    curve = schedule._rising_to(_last_p(schedule, epochs), epochs)
    if not schedule.least:
        return curve
    # A rounding error must not exceed the end.
    return [min(pruned, schedule.final) for pruned in _without_small_shares(curve, schedule.least)]


@lru_cache
def _last_p(schedule: Sigmoid, epochs: int) -> float:
    """The paper's p at the last pruning: above the final sparsity if small shares are lost on the way."""
    if not schedule.least:
        return schedule.final
    # A higher p raises every share, and so the end of the curve. The end may jump over the final sparsity where a share
    # passes `least`; the last pruning closes that gap.
    low, high = schedule.final, 1.0
    while low < (middle := (low + high) / 2) < high:
        reached = _without_small_shares(schedule._rising_to(middle, epochs), schedule.least)[-1]
        low, high = (middle, high) if reached <= schedule.final else (low, middle)
    return low


def _without_small_shares(curve: Sequence[float], least: float, prunable: int | None = None) -> list[float]:
    """The fraction that is pruned after each pruning if those with a share of at most `least` are left out.

    With `prunable`, each pruning takes a whole number of weights, rounded down.

    >>> _without_small_shares([0.001, 0.1, 0.82], least=0.001)
    [0.0, 0.09909909909909909, 0.8198198198198198]
    >>> _without_small_shares([0.001, 0.1, 0.82], least=0.001, prunable=1000)
    [0.0, 0.09899999999999998, 0.819]
    """
    whole: float = prunable or 1
    alive, before = whole, 0.0
    pruned = []
    for p in curve:
        share = (p - before) / (1 - before) if before < 1 else 0.0
        if share > least:
            alive -= alive * share if prunable is None else int(alive * share)
        pruned.append(1 - alive / whole)
        before = p
    return pruned


@dataclass(frozen=True)
class Polynomial(Drawn):
    """Prunes fast at first: `p = final * (1 - (1 - x)^power)`, with x from 0 to 1 between `begin` and `end`.

    Power 3 is the cubic of Zhu and Gupta 2017, "To prune, or not to prune"; power 1 is linear.
    `begin` and `end` are fractions of the time until the last pruning.

    >>> [Polynomial(final=0.8)(epoch, 12) for epoch in (0, 5, 10, 11)]
    [0.0, 0.7000000000000001, 0.8, 0.8]
    >>> [Polynomial(final=0.9, power=1)(epoch, 12) for epoch in (0, 5, 10, 11)]
    [0.0, 0.45, 0.9, 0.9]
    """

    final: float
    power: float = 3.0
    begin: float = 0.0
    end: float = 1.0

    def __post_init__(self) -> None:
        require_order(self.begin, self.end)
        if not 0 < self.power < math.inf:
            raise UsageError(f"power must be a finite number above 0, not {self.power}.")

    def __call__(self, epoch: int, epochs: int) -> float:
        return self.final * (1 - math.pow(1 - elapsed(epoch, epochs, self.begin, self.end), self.power))


def cubic(final: float, begin: float = 0.2, end: float = 0.8) -> Polynomial:
    """The cubic from 20 to 80 % of the training, as in the ImageNet baseline of Kusupati et al. 2020."""
    return Polynomial(final, 3.0, begin, end)


@dataclass(frozen=True)
class Step(Drawn):
    """Prunes once: 0 before the fraction `at` of the time until the last pruning, `final` from then on.

    >>> [Step(final=0.9)(epoch, 12) for epoch in (0, 4, 5, 11)]
    [0.0, 0.0, 0.9, 0.9]
    """

    final: float
    at: float = 0.5

    def __post_init__(self) -> None:
        require_order(0.0, self.at)

    def __call__(self, epoch: int, epochs: int) -> float:
        return self.final if elapsed(epoch, epochs, 0.0, self.at) == 1 else 0.0


def elapsed(epoch: int, epochs: int, begin: float = 0.0, end: float = 1.0) -> float:
    """The progress of pruning: 0 up to `begin`, 1 from `end` on, both fractions of the time until the last pruning.

    >>> [elapsed(epoch, 12, begin=0.2, end=0.6) for epoch in (0, 2, 4, 6, 11)]
    [0.0, 0.0, 0.5, 1.0, 1.0]
    """
    last = last_pruning(epochs)
    first, full = begin * last, end * last
    if epoch >= min(full, last):
        return 1.0
    return max((epoch - first) / (full - first), 0.0)


def require_order(begin: float, end: float) -> None:
    if not 0 <= begin < end <= 1:
        raise UsageError(
            f"cannot prune from {begin} to {end} of the training: "
            "both must be fractions from 0 to 1, and the first must be below the second."
        )


def log_sigmoid(x: float) -> float:
    """log(sigmoid(x)) without overflow."""
    return min(x, 0.0) - math.log1p(math.exp(-abs(x)))

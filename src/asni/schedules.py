"""Sparsity over time: pure functions of the epoch, exact at the end.

A schedule answers one question: which fraction of the prunable weights is zero after epoch `epoch` of `epochs`,
counted from 0? The last pruning follows the last epoch but one, so that the last epoch can heal; a training of a
single epoch is pruned after it.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

Schedule = Callable[[int, int], float]


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


@dataclass(frozen=True)
class Sigmoid:
    """ASNI's schedule, solved for alpha: `p(e) = alpha * sigmoid((e - beta*E) / gamma)` with `p(E-2) = final`.

    gamma defaults to E/10, as the paper advises.

    >>> schedule = Sigmoid(final=0.97)
    >>> [round(schedule(epoch, 50), 3) for epoch in (0, 25, 48, 49)]
    [0.007, 0.49, 0.97, 0.97]
    """

    final: float
    beta: float = 0.5
    gamma: float | None = None

    def __call__(self, epoch: int, epochs: int) -> float:
        last = last_pruning(epochs)
        # The quotient of two sigmoids through their logarithms: exactly 1 at the end, and no overflow on the way.
        return self.final * math.exp(self._log_sigmoid(min(epoch, last), epochs) - self._log_sigmoid(last, epochs))

    def alpha(self, epochs: int) -> float:
        """The paper's alpha, in percent; a short training may need more than 100, p itself never does."""
        return 100 * self.final / math.exp(self._log_sigmoid(last_pruning(epochs), epochs))

    @classmethod
    def from_alpha(cls, alpha: float, epochs: int, beta: float = 0.5, gamma: float | None = None) -> "Sigmoid":
        """The schedule with the paper's own parameters (alpha in percent).

        >>> schedule = Sigmoid.from_alpha(98, epochs=50, gamma=5)
        >>> 410 + kept(266_200, schedule.final)
        8330
        """
        unit = cls(1.0, beta, gamma)
        return cls(alpha / 100 * math.exp(unit._log_sigmoid(last_pruning(epochs), epochs)), beta, gamma)

    def _log_sigmoid(self, epoch: int, epochs: int) -> float:
        gamma = epochs / 10 if self.gamma is None else self.gamma
        x = (epoch - self.beta * epochs) / gamma
        return min(x, 0.0) - math.log1p(math.exp(-abs(x)))

"""Whether sparse kernels pay: what is known before they are made, and what a short timing in place says."""

from dataclasses import dataclass, field

DENSE_STEPS = 3
"""Timed before sparse kernels are made; the first ones of a round also create the optimiser's state."""

SPARSE_STEPS = 5
"""Timed afterwards, as steps of the training."""

LEAST_SPARSITY, FEWEST_STEPS, LEAST_WORK = 0.3, 50, 2e10
"""Below these, sparse kernels are not even made. The work is that of the round: weights x images, which is less than a
second of a core for every 10^10.
"""

LEAST_GAIN = 1.3
"""How many times as fast sparse kernels must be by prediction; a margin, so that no noise of a timing decides."""


@dataclass
class Trial:
    """The times of steps in seconds, and what they have decided so far.

    `wanted` is the predicted gain that is asked for. After a timing that `passed`, none follows. `only_for_rest` says
    that masks change too often to make kernels for each of them.
    """

    dense: list[float] = field(default_factory=list)
    sparse: list[float] = field(default_factory=list)
    making: float = 0.0
    made: int = 0
    lasts: int | None = None
    wanted: float = LEAST_GAIN
    passed: bool = False
    only_for_rest: bool = False

    @property
    def knows_dense(self) -> bool:
        return len(self.dense) == DENSE_STEPS

    def dense_step(self, seconds: float) -> None:
        """Keep the last times: those of the same machine and nearly the same masks."""
        self.dense = [*self.dense, seconds][-DENSE_STEPS:]

    def sparse_step(self, seconds: float) -> bool:
        """Keep the first times since the kernels were made; returns whether this was the last one that was needed."""
        if len(self.sparse) == SPARSE_STEPS:
            return False
        self.sparse.append(seconds)
        return len(self.sparse) == SPARSE_STEPS

    def made_for(self, steps: int | None, seconds: float) -> None:
        """Sparse kernels were made in this time, for so many steps; None: for all that are left."""
        self.made, self.lasts, self.making = self.made + 1, steps, seconds
        if not self.passed:
            self.sparse = []

    def may_pay(self, sparsity: float, steps: int, work: float, *, at_rest: bool) -> bool:
        """Whether to make kernels for so many steps, after which the masks change unless they are `at_rest`."""
        is_long = steps >= FEWEST_STEPS and work >= LEAST_WORK
        return sparsity >= LEAST_SPARSITY and is_long and (at_rest or not self.only_for_rest)

    @property
    def gain(self) -> float:
        """How many times as fast sparse steps are; the shortest of each is the one that other programs disturbed least.

        >>> Trial(dense=[4.0, 2.0, 3.0], sparse=[0.5, 1.0]).gain
        4.0
        """
        return min(self.dense) / max(min(self.sparse), 1e-9)

    def objects(self, predicted: float) -> bool:
        """Whether the timing speaks against sparse kernels, whatever was `predicted`."""
        if self.passed:
            return False
        if self.gain < 1:
            self.wanted = LEAST_GAIN * predicted
            return True
        if self.lasts is not None:
            if self.made == 1:
                # The first time also takes in the network; the second shows what a change of the masks costs.
                return False
            if self.lasts * (min(self.dense) - min(self.sparse)) < self.making:
                self.only_for_rest = True
                return True
        self.passed = True
        return False

"""Tells that a pruner ended before it reached its target, even if the pruner itself is gone."""

from dataclasses import dataclass

from asni.pruning.messages import warn, warn_late


@dataclass
class Ending:
    """The state of a pruner as far as its end is concerned; without a target there is nothing to miss."""

    name: str
    weights: int
    alive: int
    target: int | None = None
    total_steps: int | None = None
    steps: int = 0
    accounted_for: bool = False
    """Whether the user ended the pruning, so that nothing is left to tell."""

    @property
    def is_short(self) -> bool:
        """Whether training began, and more weights live than were asked for."""
        return self.steps > 0 and self.target is not None and self.alive > self.target

    def detached(self) -> None:
        """The user ended the pruning."""
        if self.is_short and not self.accounted_for:
            warn(self._message())
        self.accounted_for = True

    def dropped(self) -> None:
        """The pruner was deleted, or the program ended."""
        if self.is_short and not self.accounted_for:
            warn_late(self._message())

    def _message(self) -> str:
        assert self.target is not None
        until = "" if self.total_steps is None else f" of {self.total_steps:,}"
        few = self.total_steps is not None and 2 * self.steps <= self.total_steps
        accumulated = (
            " If gradients are accumulated over n batches, an epoch has len(loader) // n steps." if few else ""
        )
        return (
            f"{self.name} ended after step {self.steps:,}{until} with {percent(self.weights, self.alive)} of its "
            f"weights pruned, but {100 * (1 - self.target / self.weights):.3g} % were asked for. "
            f"Give it the real number of steps, or call pruner.finish() to prune to the target at once.{accumulated}"
        )


def percent(weights: int, alive: int) -> str:
    """The pruned share; 99.99 % must not look like everything.

    >>> percent(10_000, 1), percent(100, 10), percent(30_001, 3_001)
    ('99.9 %', '90 %', '90 %')
    """
    pruned = round(100 * (1 - alive / max(weights, 1)), 1)
    return f"{min(pruned, 99.9) if alive else pruned:g} %"

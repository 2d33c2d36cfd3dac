"""How long a training is, counted in optimiser steps."""

import math
from dataclasses import dataclass
from numbers import Real

from asni.errors import UsageError

FEW_EPOCHS = 30
"""A training of fewer epochs is pruned in smaller steps than one an epoch."""
PRUNINGS = 50
"""How many prunings such a training has, or slightly more."""


@dataclass(frozen=True)
class Length:
    """The optimiser steps of a training and of one epoch; `per_epoch` is None if it is unknown, or all there is."""

    steps: int
    per_epoch: int | None
    epochs: int | None
    counted_by_user: bool
    """Whether the user counted the optimiser's steps, and not the batches of a loader."""


def length(epochs: int | None = None, steps_per_epoch: int | None = None, total_steps: int | None = None) -> Length:
    """The length given by `epochs` and `steps_per_epoch`, or by `total_steps`.

    All count optimiser steps: with gradient accumulation over n batches, an epoch has `len(loader) // n`.

    >>> length(epochs=50, steps_per_epoch=1000).steps, length(total_steps=430, epochs=10).per_epoch
    (50000, 43)
    """
    given = {"epochs": epochs, "steps_per_epoch": steps_per_epoch, "total_steps": total_steps}
    epochs, steps_per_epoch, total_steps = (
        None if number is None else _whole(name, number) for name, number in given.items()
    )
    if total_steps is None:
        for name in ("epochs", "steps_per_epoch"):
            if given[name] is None:
                raise UsageError(
                    f"{name} is missing. Pass epochs= and steps_per_epoch=, the optimiser's steps in an epoch, such as "
                    "len(loader), or total_steps=, the optimiser's steps in the whole training."
                )
        assert epochs is not None
        assert steps_per_epoch is not None
        return Length(epochs * steps_per_epoch, steps_per_epoch if epochs > 1 else None, epochs, False)
    if epochs is not None and steps_per_epoch is not None and epochs * steps_per_epoch != total_steps:
        raise UsageError(
            f"epochs = {epochs} times steps_per_epoch = {steps_per_epoch} is {epochs * steps_per_epoch:,}, but "
            f"total_steps = {total_steps:,}. Leave out one of the three."
        )
    per_epoch = steps_per_epoch or (max(1, total_steps // epochs) if epochs else None)
    if per_epoch is not None and per_epoch > total_steps:
        raise UsageError(f"steps_per_epoch = {per_epoch:,} is more than total_steps = {total_steps:,}.")
    return Length(total_steps, None if per_epoch == total_steps else per_epoch, epochs, True)


def _whole(name: str, number: float) -> int:
    """The number as an int; with a fraction the step count would never equal it, and nothing would be pruned."""
    is_number = isinstance(number, Real | float) and not isinstance(number, bool)
    if not is_number or not 1 <= number < math.inf or number != int(number):
        raise UsageError(f"{name} must be a whole number and at least 1, not {number!r}.")
    return int(number)


def pruning_interval(whole: Length) -> int:
    """Steps between two prunings: an epoch in a training of at least 30 of them, else a fiftieth of the training.

    In few epochs, one pruning an epoch takes too much at a time: the last of ten, 71 % of the survivors.

    >>> pruning_interval(length(epochs=30, steps_per_epoch=1000)), pruning_interval(length(3, 1000))
    (1000, 60)
    """
    if whole.per_epoch is not None and whole.steps >= FEW_EPOCHS * whole.per_epoch:
        return whole.per_epoch
    return max(1, whole.steps // PRUNINGS)


def update_interval(steps: int) -> int:
    """Steps between two updates: 100, as published, or a fiftieth of a training shorter than 5,000 steps.

    >>> update_interval(50_000), update_interval(1_160), update_interval(10)
    (100, 23, 1)
    """
    return min(100, max(1, steps // 50))

"""ASNI-I: one round of training, pruned along a sigmoid (Damadi, Nouri and Pirsiavash).

Compared with sdamadi/image-classification (commit 91f7b48): the same weights for the same count, the same prunings left
out, and counts within the rounding of one weight per pruning (tests/methods/official).
"""

from typing import TYPE_CHECKING, Any, Literal, Unpack

import torch
from torch import nn

from asni.errors import UsageError, unknown
from asni.methods.one_round import one_round
from asni.pruning.gradual import GradualMagnitude, Ranking, checked_interval, checked_sparsity
from asni.pruning.length import Length, length, pruning_interval, update_interval
from asni.pruning.schedules import Schedule, Sigmoid, cubic

if TYPE_CHECKING:
    from asni.runs.run import Run
    from asni.training.trainer import Trainer


class ASNI(GradualMagnitude):
    """Makes a network sparse in one round of training, in your own training loop.

    After each of the `E` epochs except the last, a global magnitude threshold sets the fraction
    `p(e) = alpha * sigmoid((e - beta*E) / gamma)` of the prunable weights to zero. alpha is solved so that the training
    ends with exactly `round(prunable * (1 - sparsity))` living weights. `least` leaves out prunings of at most this
    fraction of the living weights in an epoch, as the authors' program does with 0.001 (see `Sigmoid`). The pruner
    counts the optimiser's steps, so the loop does not change. The training's length is given by `epochs` and
    `steps_per_epoch`, or by `total_steps`. A training of fewer than 30 epochs, or one given by `total_steps` alone,
    follows the same curve in about 50 prunings; `every` sets the steps between two of them. `schedule="cubic"` prunes
    along the curve of `GMP` instead. `GradualMagnitude` explains `score`, `floor`, `macs`, `include` and `exclude`.

    Lines of the algorithm: `Hold` is line 3 (the gradient times the mask), `Sigmoid` is line 5 (p), and
    `GradualMagnitude.prune` is lines 6 to 8 (the threshold, the mask, the weights).

    >>> model = nn.Linear(10, 10)
    >>> optimizer = torch.optim.Adam(model.parameters())
    >>> pruner = ASNI(model, optimizer, sparsity=0.9, epochs=5, steps_per_epoch=2)
    >>> for step in range(5 * 2):
    ...     loss = model(torch.ones(1, 10)).square().sum()
    ...     optimizer.zero_grad(); loss.backward(); optimizer.step()
    >>> pruner
    ASNI(epoch 5/5, 90 % pruned, 10 alive)
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        *,
        sparsity: float,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        total_steps: int | None = None,
        every: int | None = None,
        schedule: Literal["sigmoid", "cubic"] = "sigmoid",
        beta: float = 0.5,
        gamma: float | None = None,
        least: float = 0.0,
        **ranking: Unpack[Ranking],
    ):
        sparsity = checked_sparsity(sparsity)
        whole = length(epochs, steps_per_epoch, total_steps)
        every = checked_interval(pruning_interval(whole) if every is None else every, whole)
        curve: Schedule = Sigmoid(sparsity, beta, gamma, least).finer(_prunings_per_epoch(whole, every, gamma))
        if schedule != "sigmoid":
            curve = _cubic(schedule, sparsity, is_shaped=(beta, gamma, least) != (0.5, None, 0.0))
        super().__init__(model, optimizer, schedule=curve, steps=whole, every=every, **ranking)

    def schedule_of(self, prunings: int) -> Schedule:
        return self.schedule.finer(prunings / self.prunings) if isinstance(self.schedule, Sigmoid) else self.schedule

    @property
    def progress(self) -> str:
        if self.length is None or self.length.per_epoch is None:
            return super().progress
        return f"epoch {self.steps // self.length.per_epoch}/{self.length.steps // self.length.per_epoch}"


def _cubic(schedule: str, sparsity: float, *, is_shaped: bool) -> Schedule:
    if not isinstance(schedule, str):
        raise UsageError(f"schedule is a name, not {schedule!r}. GradualMagnitude takes schedules of any form.")
    if schedule != "cubic":
        raise unknown("schedule", schedule, ["sigmoid", "cubic"])
    if is_shaped:
        raise UsageError('beta, gamma and least shape the sigmoid: leave them out, or leave out schedule="cubic".')
    return cubic(sparsity)


def _prunings_per_epoch(whole: Length, every: int, gamma: float | None) -> float:
    """The unit of gamma and least is an epoch, as in the paper; where it is not known, `least` is for each pruning."""
    if whole.epochs is None and whole.per_epoch is None:
        if gamma is not None:
            raise UsageError("gamma is a number of epochs, so ASNI needs epochs= too.")
        return 1.0
    epochs = whole.epochs or whole.steps // (whole.per_epoch or whole.steps)
    return whole.steps // every / epochs


def asni_1(trainer: "Trainer") -> "Run":
    """One round of training with the recipe's schedule."""
    if trainer.recipe.pruning.schedule != "sigmoid":
        raise UsageError("asni-1 is the paper's, which follows a sigmoid. For another curve, train asni-1-fine.")
    every = trainer.recipe.pruning.every
    return _pruned(trainer, "asni-1", every=trainer.steps_per_epoch if every == "epoch" else every)


def asni_1_fine(trainer: "Trainer") -> "Run":
    """ASNI-I's curve in small prunings: every 100 steps, or as the recipe says."""
    return _pruned(trainer, "asni-1-fine", every=_fine(trainer))


def asni_1_lamp(trainer: "Trainer") -> "Run":
    """The same, ranked by LAMP."""
    return _pruned(trainer, "asni-1-lamp", every=_fine(trainer), score="lamp")


def asni_1_macs(trainer: "Trainer") -> "Run":
    """The same, within the recipe's budget of multiplications or milliseconds, ranked by the recipe's score."""
    return _pruned(trainer, "asni-1-macs", every=_fine(trainer), within_budget=True)


def _pruned(trainer: "Trainer", stage: str, **options: Any) -> "Run":
    recipe = trainer.recipe
    curve: dict[str, Any] = {"schedule": recipe.pruning.schedule}
    if recipe.pruning.schedule == "sigmoid":
        curve |= {"beta": recipe.pruning.beta, "gamma": recipe.gamma, "least": recipe.pruning.least}
    return one_round(trainer, stage, ASNI, **{**recipe.pruning.ranking, **curve, **options})


def _fine(trainer: "Trainer") -> int:
    every = trainer.recipe.pruning.every
    return every if isinstance(every, int) else update_interval(len(trainer.steps))

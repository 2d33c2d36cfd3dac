"""Training without pruning: the baseline for all other methods.

Not compared with a program: there is nothing to prune.
"""

from typing import TYPE_CHECKING

from asni.runs import names

if TYPE_CHECKING:
    from asni.runs.run import Run
    from asni.training.trainer import Trainer


def dense(trainer: "Trainer") -> "Run":
    """One round of training without pruning."""
    return trainer.train("dense", lambda model, optimizer: None)


def dense_until(trainer: "Trainer", step: int) -> "Run":
    """Repeats the first steps of the dense training, to get its weights after them."""
    stage = names.dense_until_name(step)
    return trainer.train(stage, lambda model, optimizer: None, method="dense", steps=trainer.steps[:step])

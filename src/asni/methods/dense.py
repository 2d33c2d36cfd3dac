"""The network as it is, trained without pruning: what everything else is compared with."""

from typing import TYPE_CHECKING

from asni.runs import names

if TYPE_CHECKING:
    from asni.runs.run import Run
    from asni.training.trainer import Trainer


def dense(trainer: "Trainer") -> "Run":
    """One round of training in which every weight lives."""
    return trainer.train("dense", lambda model, optimizer: None)


def dense_until(trainer: "Trainer", step: int) -> "Run":
    """The first steps of that very training once more, so that where it stood after them is known."""
    stage = names.dense_until_name(step)
    return trainer.train(stage, lambda model, optimizer: None, method="dense", steps=trainer.steps[:step])

"""Train, prune once by magnitude, train again: the two variants of Table 4.

train theta_0 for T steps
m = the largest |theta_T|, over all layers
train theta * m        theta: theta_k, from step k on (Frankle, Dziugaite, Roy and Carbin, 2020a)
                       theta: theta_T, from step 0 on (Frankle, Dziugaite, Roy and Carbin, 2021)

Not compared with a program; the global threshold is that of the lottery ticket, which was (see lottery.py).
"""

from typing import TYPE_CHECKING

from asni.methods.dense import dense
from asni.methods.tickets import pruned, rewind

if TYPE_CHECKING:
    from asni.runs.run import Run
    from asni.training.trainer import Trainer


def magnitude_rewind(trainer: "Trainer") -> "Run":
    """Rewind to the weights of step k and train from there ("Linear mode connectivity and the lottery ticket")."""
    early, steps = rewind(trainer)
    make_pruner, settings = pruned(trainer, dense(trainer), trainer.keep), {"first_step": steps.start}
    return trainer.train("magnitude-rewind", make_pruner, start=early, steps=steps, settings=settings)


def magnitude_retrain(trainer: "Trainer") -> "Run":
    """Keep the weights, restart the learning-rate schedule ("Pruning at initialization: missing the mark")."""
    trained = dense(trainer)
    return trainer.train("magnitude-retrain", pruned(trainer, trained, trainer.keep), start=trained.weights)

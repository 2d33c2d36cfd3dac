"""The lottery ticket algorithm (Frankle and Carbin, 2019) and its stabilised form (Frankle et al., 2019).

    for j = 1 .. r:
        train theta_0 * m for T steps
        m = without the smallest p % of the weights that live, by magnitude
        theta_0 = the original initial values, or those of step k of the first round
    train theta_0 * m

p is 20 % at most: r is the smallest number of rounds that it takes, and p the same in all of them, so that the last
mask has exactly the nonzeros that are asked. Round 1 is the dense training. A stabilised round starts at step k:
its learning rates and its data are those from k on, and its optimiser starts afresh.
"""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from asni.errors import UsageError
from asni.methods.dense import dense
from asni.methods.tickets import REWIND, Prune, globally, pruned, rewind
from asni.pruning.masks import Masks, keep_largest
from asni.runs import names

if TYPE_CHECKING:
    from asni.runs.run import Run
    from asni.training.trainer import Trainer

RATE = 0.2


def lottery(trainer: "Trainer", *, rate: float = RATE) -> "Run":
    """Algorithm 1: back to the original values; the smallest weights of all layers together go."""
    return _rounds(trainer, "lottery", dense(trainer).initial, trainer.steps, rate, globally)


def lottery_layerwise(trainer: "Trainer", *, rate: float = RATE) -> "Run":
    """Algorithm 1 as first published for LeNet: the same percentage of each layer, half of it of the output layer."""
    return _rounds(trainer, "lottery-layerwise", dense(trainer).initial, trainer.steps, rate, layer_by_layer)


def lottery_rewind(trainer: "Trainer", *, rate: float = RATE, share: float = REWIND) -> "Run":
    """Algorithm 2: back to the values of step k of the first round, and on from there."""
    early, steps = rewind(trainer, share)
    return _rounds(trainer, "lottery-rewind", early, steps, rate, globally)


def _rounds(
    trainer: "Trainer", name: str, start: Mapping[str, Tensor], steps: range, rate: float, prune: Prune
) -> "Run":
    total = sum(weight.numel() for weight in trainer.prunable(trainer.network()).values())
    *earlier, last = counts(total, trainer.keep, rate)
    settings = {"rate": rate, "first_step": steps.start}
    run = dense(trainer)
    for number, alive in enumerate(earlier, 2):
        make_pruner = pruned(trainer, run, alive, prune)
        stage = names.round_name(name, number)
        run = trainer.train(stage, make_pruner, method=name, start=start, steps=steps, settings=settings)
    return trainer.train(name, pruned(trainer, run, last, prune), start=start, steps=steps, settings=settings)


def counts(total: int, keep: int, rate: float) -> list[int]:
    """How many weights live after each pruning, down to exactly `keep`.

    >>> counts(1000, 512, rate=0.2)
    [800, 640, 512]
    """
    if not 0 < rate < 1:
        raise UsageError(f"rate is the fraction of the living weights to prune in a round, above 0 and below 1: {rate}")
    # A hair less than the exact quotient, so that three rounds of exactly 20 % are not taken for four.
    rounds = max(1, math.ceil(math.log(max(keep, 1) / total) / math.log(1 - rate) - 1e-9))
    return [round(total * (keep / total) ** (number / rounds)) for number in range(1, rounds + 1)]


def layer_by_layer(weights: Mapping[str, Tensor], keep: int, within: Masks | None) -> Masks:
    """The largest of each layer, the same fraction of the living weights of each; the last layer loses half of it.

    A weight's rank in its layer, as a fraction of those that live, is the percentage at which it would go.

    >>> masks = layer_by_layer({"a": torch.arange(10.0), "b": torch.arange(10.0)}, 14, None)
    >>> int(masks["a"].sum()), int(masks["b"].sum())
    (6, 8)
    """
    percentages = {}
    for name, weight in weights.items():
        lives = torch.ones_like(weight, dtype=torch.bool) if within is None else within[name]
        magnitudes = torch.where(lives, weight.abs(), -1.0).flatten().double()
        ranks = magnitudes.argsort(stable=True).argsort() - int((~lives).sum())
        percentages[name] = (ranks.double() / max(int(lives.sum()), 1)).view(weight.shape)
    percentages[name] *= 2
    return keep_largest(percentages, keep, within=within, by=torch.positive)

"""The lottery ticket algorithm (Frankle and Carbin, 2019) and its stabilised form (Frankle et al., 2019).

    for j = 1 .. r:
        train theta_0 * m for T steps
        m = without the smallest p % of the living weights, by magnitude
        theta_0 = the original initial values, or those of step k of the first round
    train theta_0 * m

p is at most 20 % and the same in all rounds, and r is the smallest number of rounds, such that the last mask has
exactly the requested nonzeros. The recipe may set another p, or r, and k. Round 1 is the dense training. A stabilised
round starts at step k: it uses the learning rates and the data from step k on, and a new optimiser.

Compared with facebookresearch/open_lth (commit 2ce732f) and google-research/lottery-ticket-hypothesis (1f17279): the
same weights for the same counts; the programs prune one weight more per round or layer (tests/methods/official).
"""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from asni.methods.dense import dense
from asni.methods.tickets import Prune, globally, pruned, rewind
from asni.pruning.masks import Masks, keep_largest, weight_count
from asni.runs import names

if TYPE_CHECKING:
    from asni.runs.run import Run
    from asni.training.trainer import Trainer


def lottery(trainer: "Trainer") -> "Run":
    """Algorithm 1: rewind to the original values; prune the smallest weights globally."""
    return _rounds(trainer, "lottery", dense(trainer).initial, trainer.steps, globally)


def lottery_layerwise(trainer: "Trainer") -> "Run":
    """Algorithm 1 as first published for LeNet: prune the same percentage of each layer, half of it in the last one."""
    return _rounds(trainer, "lottery-layerwise", dense(trainer).initial, trainer.steps, layer_by_layer)


def lottery_rewind(trainer: "Trainer") -> "Run":
    """Algorithm 2: rewind to step k of the first round, and train from there."""
    return _rounds(trainer, "lottery-rewind", *rewind(trainer), globally)


def _rounds(trainer: "Trainer", name: str, start: Mapping[str, Tensor], steps: range, prune: Prune) -> "Run":
    total = weight_count(trainer.prunable(trainer.network()))
    *earlier, last = counts(total, trainer.keep, **trainer.recipe.lottery.pace)
    settings = {"first_step": steps.start}
    run = dense(trainer)
    for number, alive in enumerate(earlier, 2):
        make_pruner = pruned(trainer, run, alive, prune)
        stage = names.round_name(name, number)
        run = trainer.train(stage, make_pruner, method=name, start=start, steps=steps, settings=settings)
    return trainer.train(name, pruned(trainer, run, last, prune), start=start, steps=steps, settings=settings)


def counts(total: int, keep: int, rate: float = 0.2, rounds: int | None = None) -> list[int]:
    """How many weights live after each pruning, down to exactly `keep`: in `rounds`, or in as few as the rate allows.

    >>> counts(1000, 512, rate=0.2), counts(1000, 10, rounds=2)
    ([800, 640, 512], [100, 10])
    """
    if rounds is None:
        # Minus a tolerance, so that a rounding error does not turn three rounds of exactly 20 % into four.
        rounds = max(1, math.ceil(math.log(max(keep, 1) / total) / math.log1p(-rate) - 1e-9))
    return [round(total * (keep / total) ** (number / rounds)) for number in range(1, rounds + 1)]


def layer_by_layer(weights: Mapping[str, Tensor], keep: int, within: Masks | None) -> Masks:
    """Masks of the largest weights in each layer: all layers lose the same fraction, the last one half of it.

    A weight's rank in its layer, as a fraction of the living weights, is the fraction at which it is pruned.

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

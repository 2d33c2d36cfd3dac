"""What weights are ranked by while a network trains: magnitude, LAMP, or a function of your own."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from asni.errors import UsageError, unknown
from asni.pruning.masks import Masks, keep_largest
from asni.pruning.sharded import is_sharded, spread_like

Score = Callable[[str, Tensor], Tensor]
"""(parameter name, weights) -> the scores of the weights; the largest are kept."""


def magnitude(name: str, weight: Tensor) -> Tensor:
    """The absolute value: the paper's score."""
    return weight.detach().abs()


def lamp(name: str, weight: Tensor) -> Tensor:
    """Layer-adaptive magnitude, `w^2 / sum of v^2 over the layer's weights v with |v| >= |w|` (Lee et al., 2021).

    Within a layer, the order is that of the magnitudes. The largest weight of a layer scores 1 (less if it is tied), so
    that layers of small weights are not emptied. A `DTensor` is collected for this, one layer at a time.

    >>> lamp("layer", torch.tensor([1.0, 0.0, -2.0, 2.0]))
    tensor([0.1111, 0.0000, 0.5000, 0.5000], dtype=torch.float64)
    """
    if is_sharded(weight):
        return spread_like(lamp(name, weight.full_tensor()), weight)
    ascending, order = weight.detach().abs().double().flatten().sort()
    squares = ascending.square()
    not_smaller = squares.flip(0).cumsum(0).flip(0)[_first_of_equals(ascending)]
    scores = squares / not_smaller.clamp(min=torch.finfo(torch.float64).tiny)
    return torch.empty_like(scores).scatter_(0, order, scores).view(weight.shape)


def _first_of_equals(ascending: Tensor) -> Tensor:
    """For each of sorted numbers, the place of the first that equals it."""
    places = torch.arange(len(ascending), device=ascending.device)
    repeats = torch.zeros_like(ascending, dtype=torch.bool)
    torch.eq(ascending[1:], ascending[:-1], out=repeats[1:])
    return places.masked_fill(repeats, 0).cummax(0).values if len(places) else places


SCORES: dict[str, Score] = {"magnitude": magnitude, "lamp": lamp}


def score_function(score: str | Score) -> Score:
    """The score function of that name; a function is returned unchanged."""
    if callable(score):
        return score
    if not isinstance(score, str):
        raise UsageError(f"score is a name or a function (name, weight) -> tensor, not {score!r}.")
    if score not in SCORES:
        raise unknown("score", score, SCORES)
    return SCORES[score]


def scored(weights: Mapping[str, Tensor], score: Score) -> dict[str, Tensor]:
    """The score of every weight."""
    scores = {name: score(name, weight.detach()) for name, weight in weights.items()}
    for name, values in scores.items():
        if not isinstance(values, Tensor) or not values.is_floating_point():
            raise UsageError(f"the score of '{name}' must be a tensor of floating-point numbers, not {values!r:.60}.")
        if values.shape != weights[name].shape:
            shapes = (tuple(each.shape) for each in (values, weights[name]))
            raise UsageError("the score of '{}' has shape {}, but its weights have shape {}.".format(name, *shapes))
    return scores


def keep_highest(
    weights: Mapping[str, Tensor], score: Score, keep: int, within: Masks | None = None, floor: float | None = None
) -> Masks:
    """Masks that keep exactly `keep` weights: those of the highest score; see `keep_largest`."""
    scores, by = ranked(weights, score)
    return keep_largest(scores, keep, within=within, by=by, floor=floor)


def ranked(weights: Mapping[str, Tensor], score: Score) -> tuple[Mapping[str, Tensor], Callable[[Tensor], Tensor]]:
    """Scores, and the function by which `keep_largest` ranks them."""
    # Magnitudes are taken layer by layer, without a copy of all weights.
    return (weights, torch.abs) if score is magnitude else (scored(weights, score), torch.positive)

"""One line that says what is pruned, and what is not and why."""

from collections.abc import Iterable, Mapping

from torch import Tensor, nn

from asni.pruning.layers import Choice

MOST_NAMED = 3
WELL_KNOWN = "norm, bias or vector"
"""Left out everywhere, so counted without names."""


def overview(choices: Iterable[Choice], weights: Mapping[str, Tensor]) -> str:
    """How many layers and weights are pruned, their share of all parameters, and what is left out by which reason.

    >>> from torch import nn
    >>> from asni.pruning.layers import prunable, survey
    >>> model = nn.ModuleDict({"words": nn.Embedding(9, 4), "head": nn.Linear(4, 9)})
    >>> overview(survey(model), prunable(model))
    '36 weights in 1 layer, 44.4 % of 81 parameters; left out: 36 embedding (words.weight), 9 norm, bias or vector'
    """
    pruned = {id(weight) for weight in weights.values()}
    left_out: dict[str, list[Choice]] = {}
    total = 0
    for each in choices:
        # A weight that is computed from parameters is none itself.
        total += each.parameter.numel() if isinstance(each.parameter, nn.Parameter) else 0
        if id(each.parameter) not in pruned:
            left_out.setdefault(each.left_out or "of another optimizer", []).append(each)
    own = sum(weight.numel() for weight in weights.values())
    layers = f"{len(weights)} layer{'s' * (len(weights) != 1)}"
    line = f"{own:,} weights in {layers}, {own / max(total, 1):.1%} of {total:,} parameters".replace("%", " %")
    groups = sorted(left_out.items(), key=lambda group: group[0] == WELL_KNOWN)
    return "; left out: ".join(filter(None, [line, ", ".join(_group(*group) for group in groups)]))


def _group(reason: str, choices: list[Choice]) -> str:
    count = f"{sum(each.parameter.numel() for each in choices):,} {reason}"
    if reason == WELL_KNOWN:
        return count
    names = ", ".join(each.name for each in choices[:MOST_NAMED])
    more = f" and {len(choices) - MOST_NAMED} more" * (len(choices) > MOST_NAMED)
    return f"{count} ({names}{more})"

"""How many weights each layer keeps, chosen by its shape alone; the total is exact."""

import math
from collections.abc import Callable, Mapping

import numpy as np
import torch
from torch import Tensor

from asni.pruning.masks import Masks, keep_largest
from asni.pruning.sharded import spread_like

Distribution = Callable[[Mapping[str, torch.Size], int], dict[str, int]]


def erk(shapes: Mapping[str, torch.Size], keep: int) -> dict[str, int]:
    """Erdős-Rényi-Kernel (Evci et al. 2020): a layer's density is `eps * (in + out + kernel sizes) / weights`.

    So its number of weights is proportional to the sum of its dimensions. A layer that would get more weights than it
    has stays dense, and eps is solved again for the others.

    >>> erk({"a": torch.Size([300, 784]), "b": torch.Size([100, 300]), "c": torch.Size([10, 100])}, keep=7920)
    {'a': 5386, 'b': 1987, 'c': 547}
    """
    return _shared_out(keep, {name: sum(shape) for name, shape in shapes.items()}, shapes)


def uniform(shapes: Mapping[str, torch.Size], keep: int) -> dict[str, int]:
    """The same density in every layer.

    >>> uniform({"a": torch.Size([300, 784]), "b": torch.Size([100, 300]), "c": torch.Size([10, 100])}, keep=2662)
    {'a': 2352, 'b': 300, 'c': 10}
    """
    return _shared_out(keep, {name: math.prod(shape) for name, shape in shapes.items()}, shapes)


def random_masks(weights: Mapping[str, Tensor], counts: Mapping[str, int], seed: int) -> Masks:
    """Random masks with `counts[name]` living weights in each layer; one seed gives the same masks on every machine.

    >>> int(random_masks({"a": torch.zeros(3, 4)}, {"a": 5}, seed=0)["a"].sum())
    5
    """
    generator = np.random.default_rng(seed)
    masks: Masks = {}
    for name, weight in weights.items():
        masks |= keep_largest({name: random_scores(weight, generator)}, counts[name])
    return masks


def random_scores(like: Tensor, generator: np.random.Generator) -> Tensor:
    # Every process draws the whole layer, so that the masks do not depend on their number.
    return spread_like(torch.from_numpy(generator.random(tuple(like.shape), dtype=np.float32)), like).to(like.device)


def _shared_out(keep: int, shares: Mapping[str, float], shapes: Mapping[str, torch.Size]) -> dict[str, int]:
    sizes = {name: math.prod(shape) for name, shape in shapes.items()}
    counts = {name: size for name, size in sizes.items() if keep >= sum(sizes.values())}
    while len(counts) < len(sizes):
        open_layers = [name for name in sizes if name not in counts]
        scale = (keep - sum(counts.values())) / sum(shares[name] for name in open_layers)
        dense = {name: sizes[name] for name in open_layers if scale * shares[name] >= sizes[name]}
        if not dense:
            return {**_rounded({name: scale * shares[name] for name in open_layers}), **counts}
        counts |= dense
    return counts


def _rounded(exact: Mapping[str, float]) -> dict[str, int]:
    """Whole numbers with the same total: the largest remainders are rounded up."""
    counts = {name: math.floor(number) for name, number in exact.items()}
    missing = round(sum(exact.values())) - sum(counts.values())
    for name in sorted(exact, key=lambda name: counts[name] - exact[name])[:missing]:
        counts[name] += 1
    return counts

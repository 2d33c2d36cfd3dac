"""How much each weight matters: by its value while a network trains, or by its effect before any training."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from typing import Unpack

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from asni.errors import UsageError, unknown
from asni.pruning.layers import Layers, prunable

Scores = dict[str, Tensor]
"""Parameter name -> a number for each of its weights."""

Score = Callable[[str, Tensor], Tensor]
"""A layer's name and its weights -> a number for each of them; the largest matter most."""

AT_ONCE = 128
"""Images in one pass; batch norm takes its statistics over those."""


def magnitude(name: str, weight: Tensor) -> Tensor:
    """The absolute value: the paper's score."""
    return weight.detach().abs()


def lamp(name: str, weight: Tensor) -> Tensor:
    """Layer-adaptive magnitude, `w^2 / sum of v^2 over the layer's weights v with |v| >= |w|` (Lee et al., 2021).

    It ranks a layer by magnitude, and its largest weight at 1 in every layer, so that no layer is emptied.

    >>> lamp("layer", torch.tensor([1.0, 0.0, -2.0, 2.0]))
    tensor([0.1111, 0.0000, 0.5000, 0.5000], dtype=torch.float64)
    """
    magnitudes = weight.detach().abs().double().flatten()
    ascending = magnitudes.sort().values
    not_smaller = ascending.square().flip(0).cumsum(0).flip(0)
    sums = not_smaller[torch.searchsorted(ascending, magnitudes).clamp_(max=max(len(ascending) - 1, 0))]
    return (magnitudes.square() / sums.clamp(min=torch.finfo(torch.float64).tiny)).view(weight.shape)


SCORES: dict[str, Score] = {"magnitude": magnitude, "lamp": lamp}


def score_function(score: str | Score) -> Score:
    """A score by its name; a function is one already."""
    if callable(score):
        return score
    if score not in SCORES:
        raise unknown("score", score, SCORES)
    return SCORES[score]


def scored(weights: Mapping[str, Tensor], score: Score) -> Scores:
    """The score of every weight."""
    scores = {name: score(name, weight.detach()) for name, weight in weights.items()}
    for name, values in scores.items():
        if values.shape != weights[name].shape:
            shapes = (tuple(each.shape) for each in (values, weights[name]))
            raise UsageError("the score of '{}' has the shape {}, its weights {}.".format(name, *shapes))
    return scores


def snip(model: nn.Module, images: Tensor, labels: Tensor, **layers: Unpack[Layers]) -> Scores:
    """Connection sensitivity `|w dL/dw|` on one batch; the largest matter most (Lee, Ajanthan and Torr, 2019).

    >>> model = nn.Linear(2, 2, bias=False)
    >>> _ = model.weight.data.copy_(torch.tensor([[1.0, 2.0], [1.0, 2.0]]))
    >>> snip(model, torch.tensor([[1.0, 0.0]]), torch.tensor([0]))
    {'weight': tensor([[0.5000, 0.0000],
            [0.5000, 0.0000]])}
    """
    trial = deepcopy(model).train()
    weights = prunable(trial, **layers)
    gradient = _summed(_gradient(loss, weights) for loss in _losses(trial, images, labels))
    return {name: (weight.detach() * gradient[name]).abs() for name, weight in weights.items()}


def grasp(
    model: nn.Module, images: Tensor, labels: Tensor, *, temperature: float = 200.0, **layers: Unpack[Layers]
) -> Scores:
    """What the gradient flow gains without each weight, `-w * (H g)`; the SMALLEST matter most (Wang et al., 2020).

    g and H are the gradient and the Hessian of the loss of outputs divided by the temperature, over the prunable
    weights; batch norm uses the batch, as in training.

    >>> model = nn.Linear(1, 2, bias=False)
    >>> _ = model.weight.data.copy_(torch.tensor([[1.0], [-1.0]]))
    >>> grasp(model, torch.tensor([[1.0]]), torch.tensor([0]), temperature=1.0)
    {'weight': tensor([[0.0250],
            [0.0250]])}
    """
    trial = deepcopy(model).train()
    weights = prunable(trial, **layers)
    gradient = _summed(_gradient(loss, weights) for loss in _losses(trial, images, labels, temperature))

    def along_gradient(loss: Tensor) -> Tensor:
        part = _gradient(loss, weights, create_graph=True)
        return torch.stack([(part[name] * gradient[name]).sum() for name in weights]).sum()

    hessian_gradient = _summed(
        _gradient(along_gradient(loss), weights) for loss in _losses(trial, images, labels, temperature)
    )
    return {name: -weight.detach() * hessian_gradient[name] for name, weight in weights.items()}


def synflow(
    model: nn.Module,
    shape: tuple[int, ...],
    masks: Mapping[str, Tensor] | None = None,
    **layers: Unpack[Layers],
) -> Scores:
    """Synaptic flow `w dR/dw` of the network of absolute values on an image of ones, R the sum of its outputs.

    The largest matter most (Tanaka, Kunin, Yamins and Ganguli, 2020). Where `masks` are given, only weights that
    live there take part. In double precision, as the products over many layers leave the range of single precision.

    >>> model = nn.Sequential(nn.Linear(2, 1, bias=False), nn.Linear(1, 1, bias=False))
    >>> _ = model[0].weight.data.copy_(torch.tensor([[1.0, -3.0]])), model[1].weight.data.fill_(-2.0)
    >>> synflow(model, (2,))
    {'0.weight': tensor([[2., 6.]], dtype=torch.float64), '1.weight': tensor([[8.]], dtype=torch.float64)}
    """
    trial = deepcopy(model).double().eval()
    with torch.no_grad():
        for value in trial.state_dict().values():
            if value.is_floating_point():
                value.abs_()
        weights = prunable(trial, **layers)
        for name, mask in (masks or {}).items():
            weights[name].mul_(mask.to(weights[name].device))
    ones = torch.ones(1, *shape, dtype=torch.float64, device=next(iter(weights.values())).device)
    flow = trial(ones).sum()
    gradient = _gradient(flow, weights)
    return {name: weight.detach() * gradient[name] for name, weight in weights.items()}


def _losses(model: nn.Module, images: Tensor, labels: Tensor, temperature: float = 1.0) -> Iterator[Tensor]:
    """Parts of the mean cross-entropy over all images, which together may be too many for a GPU."""
    device = next(model.parameters()).device
    for some, own in zip(images.split(AT_ONCE), labels.split(AT_ONCE), strict=True):
        outputs = model(some.to(device)) / temperature
        yield cross_entropy(outputs, own.to(device)) * (len(own) / len(labels))


def _summed(parts: Iterable[Scores]) -> Scores:
    total: Scores = {}
    for part in parts:
        for name, values in part.items():
            total[name] = total[name] + values if name in total else values
    return total


def _gradient(value: Tensor, weights: Mapping[str, Tensor], *, create_graph: bool = False) -> Scores:
    """By name; zero for a weight that the value does not depend on."""
    parts = torch.autograd.grad(value, list(weights.values()), create_graph=create_graph, materialize_grads=True)
    return dict(zip(weights, parts, strict=True))

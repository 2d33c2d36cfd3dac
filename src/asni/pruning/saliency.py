"""How much each weight matters before training, measured on a copy of the model: SNIP, GraSP and SynFlow."""

import math
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from typing import Unpack

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from asni.pruning.layers import Layers, prunable

Saliency = dict[str, Tensor]
"""Parameter name -> the saliency of each of its weights."""

MOST_IN_HALVES = 2000
"""The most images that GraSP splits into halves: half of the ten images per class of ImageNet would fit no GPU."""

AT_ONCE = 20
"""Images per part where halves would be too large, as in the authors' program for ImageNet."""


def snip(model: nn.Module, images: Tensor, labels: Tensor, **layers: Unpack[Layers]) -> Saliency:
    """Connection sensitivity `|w dL/dw|` on one batch; keep the largest (Lee, Ajanthan and Torr, 2019).

    Batch norm uses the statistics of the whole batch, as in training.

    >>> model = nn.Linear(2, 2, bias=False)
    >>> _ = model.weight.data.copy_(torch.tensor([[1.0, 2.0], [1.0, 2.0]]))
    >>> snip(model, torch.tensor([[1.0, 0.0]]), torch.tensor([0]))
    {'weight': tensor([[0.5000, 0.0000],
            [0.5000, 0.0000]])}
    """
    trial = deepcopy(model).train()
    weights = prunable(trial, **layers)
    gradient = _gradient(_loss(trial, images, labels), weights)
    return {name: (weight.detach() * gradient[name]).abs() for name, weight in weights.items()}


def grasp(
    model: nn.Module, images: Tensor, labels: Tensor, *, temperature: float = 200.0, **layers: Unpack[Layers]
) -> Saliency:
    """Gain in gradient flow from removing each weight, `-w * (H g)`; keep the SMALLEST (Wang et al., 2020).

    g and H are the gradient and the Hessian of the loss over the prunable weights, with the outputs divided by the
    temperature. As in the authors' program, the loss is the sum of the mean losses of the two halves of the images, and
    batch norm uses the statistics of each half. More than 2,000 images are split into parts of 20, as in their
    program for ImageNet.

    >>> model = nn.Linear(1, 2, bias=False)
    >>> _ = model.weight.data.copy_(torch.tensor([[1.0], [-1.0]]))
    >>> grasp(model, torch.ones(4, 1), torch.zeros(4, dtype=torch.long), temperature=1.0)
    {'weight': tensor([[0.1001],
            [0.1001]])}
    """
    trial = deepcopy(model).train()
    weights = prunable(trial, **layers)

    def losses() -> Iterator[Tensor]:
        for part in zip(_parts(images), _parts(labels), strict=True):
            yield _loss(trial, *part, temperature)

    gradient = _summed(_gradient(loss, weights) for loss in losses())

    def along_gradient(loss: Tensor) -> Tensor:
        own = _gradient(loss, weights, create_graph=True)
        return torch.stack([(own[name] * gradient[name]).sum() for name in weights]).sum()

    hessian_gradient = _summed(_gradient(along_gradient(loss), weights) for loss in losses())
    return {name: -weight.detach() * hessian_gradient[name] for name, weight in weights.items()}


def synflow(
    model: nn.Module,
    shape: tuple[int, ...],
    masks: Mapping[str, Tensor] | None = None,
    **layers: Unpack[Layers],
) -> Saliency:
    """Synaptic flow `w dR/dw`: R is the sum of the outputs for an image of ones, with all parameters made positive.

    Keep the largest (Tanaka, Kunin, Yamins and Ganguli, 2020). With `masks`, pruned weights count as zero. Computed in
    double precision, since products over many layers exceed the range of single precision.

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


def _loss(model: nn.Module, images: Tensor, labels: Tensor, temperature: float = 1.0) -> Tensor:
    device = next(model.parameters()).device
    return cross_entropy(model(images.to(device)) / temperature, labels.to(device))


def _parts(batch: Tensor) -> tuple[Tensor, ...]:
    """Two halves, or more parts of a large batch; batch norm needs at least two images per part."""
    if len(batch) > MOST_IN_HALVES:
        return batch.tensor_split(math.ceil(len(batch) / AT_ONCE))
    return batch.tensor_split([len(batch) // 2]) if len(batch) > 3 else (batch,)


def _summed(parts: Iterable[Saliency]) -> Saliency:
    total: Saliency = {}
    for part in parts:
        for name, values in part.items():
            total[name] = total[name] + values if name in total else values
    return total


def _gradient(value: Tensor, weights: Mapping[str, Tensor], *, create_graph: bool = False) -> Saliency:
    """Gradients by name; zero for weights that `value` does not depend on."""
    parts = torch.autograd.grad(value, list(weights.values()), create_graph=create_graph, materialize_grads=True)
    return dict(zip(weights, parts, strict=True))

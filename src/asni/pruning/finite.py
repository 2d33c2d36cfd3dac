"""Networks whose training has diverged."""

import torch
from torch import Tensor, nn


def not_finite(model: nn.Module) -> list[str]:
    """The saved tensors of a model that hold NaN, or infinity where they are parameters.

    >>> model = nn.BatchNorm1d(2)
    >>> _ = model.weight.data.fill_(float("inf"))
    >>> not_finite(model)
    ['weight']
    """
    parameters = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    tensors = {name: value for name, value in model.state_dict().items() if isinstance(value, Tensor)}
    # A buffer may hold infinity on purpose, as an attention mask does.
    sound = {name: torch.isfinite(value) if name in parameters else ~value.isnan() for name, value in tensors.items()}
    return [name for name, where in sound.items() if not where.all()]

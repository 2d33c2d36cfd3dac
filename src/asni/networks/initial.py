"""Initial values of a network."""

from torch import nn

from asni.pruning.layers import CONVOLUTION_AND_LINEAR

NORM_LAYERS = (
    nn.BatchNorm1d,
    nn.BatchNorm2d,
    nn.BatchNorm3d,
    nn.SyncBatchNorm,
    nn.InstanceNorm1d,
    nn.InstanceNorm2d,
    nn.InstanceNorm3d,
    nn.GroupNorm,
    nn.LayerNorm,
    nn.RMSNorm,
)


def initialise(model: nn.Module) -> None:
    """Kaiming-normal weights, `w ~ N(0, 2 / fan_in)`; biases 0; normalisation (1, 0) with fresh statistics.

    `fan_in` is He et al.'s choice and PyTorch's default: it preserves the scale of the activations from layer to layer.

    >>> layer = nn.Linear(200, 100)
    >>> initialise(layer)
    >>> abs(layer.weight.std().item() - 0.1) < 0.005, layer.bias.abs().max().item()
    (True, 0.0)
    """
    for module in model.modules():
        if isinstance(module, CONVOLUTION_AND_LINEAR):
            nn.init.kaiming_normal_(module.weight, mode="fan_in", nonlinearity="relu")
    reset_biases_and_norms(model)


def reset_biases_and_norms(model: nn.Module) -> None:
    """Biases 0, normalisation (1, 0) with fresh running statistics; all other weights keep their values.

    >>> norm = nn.BatchNorm1d(2)
    >>> _ = norm(norm.weight.new_tensor([[1.0, 2.0], [3.0, 4.0]]))
    >>> reset_biases_and_norms(norm)
    >>> norm.running_mean, norm.running_var
    (tensor([0., 0.]), tensor([1., 1.]))
    """
    for module in model.modules():
        if isinstance(module, NORM_LAYERS):
            module.reset_parameters()
        for name, parameter in module.named_parameters(recurse=False):
            if "bias" in name:
                nn.init.zeros_(parameter)


def can_be_reset(name: str, module: nn.Module) -> bool:
    """Whether `reset_biases_and_norms` resets this parameter of the module."""
    return isinstance(module, NORM_LAYERS) or "bias" in name.rpartition(".")[2]

"""Networks of the usual kinds, as small as they can be, with batch norms whose statistics are not 0 and 1."""

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from asni.networks.resnet import BasicBlock, Bottleneck

IMAGE = (3, 16, 16)
"""The shape of an item for all of them."""


def lively(network: nn.Module, seed: int = 0) -> nn.Module:
    """Draw the statistics, weights and biases of normalisations at random, in evaluation mode."""
    draw = torch.Generator().manual_seed(seed)
    for module in network.modules():
        if isinstance(module, (nn.modules.batchnorm._BatchNorm, nn.LayerNorm)):
            for name, low, high in (("weight", 0.5, 1.5), ("bias", -0.5, 0.5)):
                getattr(module, name).data.uniform_(low, high, generator=draw)
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            assert module.running_mean is not None
            assert module.running_var is not None
            module.running_mean.uniform_(-0.5, 0.5, generator=draw)
            module.running_var.uniform_(0.5, 2.0, generator=draw)
    return network.eval()


def basic_resnet() -> nn.Module:
    return lively(_ResNet([BasicBlock(8, 8, 1), BasicBlock(8, 12, 2)], 12))


def bottleneck_resnet() -> nn.Module:
    return lively(_ResNet([Bottleneck(8, 4, 1), Bottleneck(16, 5, 2)], 20))


class _ResNet(nn.Module):
    def __init__(self, blocks: Sequence[nn.Module], width: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, kernel_size=7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(8)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(kernel_size=3, stride=2, padding=1)
        self.blocks = nn.Sequential(*blocks)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(width, 7)

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        return self.fc(torch.flatten(self.avgpool(self.blocks(x)), 1))  # type: ignore[no-any-return]


def mobilenet_v2() -> nn.Module:
    blocks = [_Inverted(8, 8, 1, nn.ReLU6), _Inverted(8, 12, 2, nn.ReLU6), _Inverted(12, 12, 1, nn.ReLU6)]
    return lively(_mobilenet(blocks, 12, nn.ReLU6))


def mobilenet_v3() -> nn.Module:
    blocks = [_Inverted(8, 8, 1, nn.ReLU, squeezes=True), _Inverted(8, 12, 2, nn.Hardswish, squeezes=True)]
    return lively(_mobilenet(blocks, 12, nn.Hardswish))


def _mobilenet(blocks: Sequence[nn.Module], width: int, activation: Callable[[], nn.Module]) -> nn.Module:
    return nn.Sequential(
        _convolution(3, 8, 3, 2, activation),
        *blocks,
        _convolution(width, 16, 1, 1, activation),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(1),
        nn.Linear(16, 10),
        nn.Hardswish(),
        nn.Dropout(0.2),
        nn.Linear(10, 7),
    )


def _convolution(
    inputs: int, outputs: int, size: int, stride: int, activation: Callable[[], nn.Module], groups: int = 1
) -> nn.Module:
    layer = nn.Conv2d(inputs, outputs, size, stride, size // 2, groups=groups, bias=False)
    return nn.Sequential(layer, nn.BatchNorm2d(outputs), activation())


class _Inverted(nn.Module):
    """A wide depthwise convolution between two of one pixel, the second without an activation."""

    def __init__(
        self, inputs: int, outputs: int, stride: int, activation: Callable[[], nn.Module], squeezes: bool = False
    ) -> None:
        super().__init__()
        wide = 2 * inputs
        layers = [_convolution(inputs, wide, 1, 1, activation), _convolution(wide, wide, 3, stride, activation, wide)]
        layers += [_Squeeze(wide)] * squeezes
        self.layers = nn.Sequential(*layers, _convolution(wide, outputs, 1, 1, nn.Identity))
        self.is_residual = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.layers(x)
        return x + y if self.is_residual else y


class _Squeeze(nn.Module):
    """Scales channels by what all of them are on average."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc1, self.fc2 = nn.Conv2d(width, 4, 1), nn.Conv2d(4, width, 1)
        self.relu, self.scale = nn.ReLU(), nn.Hardsigmoid()

    def forward(self, x: Tensor) -> Tensor:
        return self.scale(self.fc2(self.relu(self.fc1(self.avgpool(x))))) * x  # type: ignore[no-any-return]


def transformer() -> nn.Module:
    """A vision transformer from the layers of torch."""
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, activation="gelu", batch_first=True, norm_first=True)
    return lively(_ViT(nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)))


def own_transformer() -> nn.Module:
    """A vision transformer with an attention of its own."""
    return lively(_ViT(nn.Sequential(_Block(8, 2), _Block(8, 2))))


class _ViT(nn.Module):
    def __init__(self, encoder: nn.Module) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 8, kernel_size=4, stride=4)
        self.class_token = nn.Parameter(torch.randn(1, 1, 8))
        self.positions = nn.Parameter(torch.randn(1, 17, 8))
        self.encoder = encoder
        self.norm = nn.LayerNorm(8)
        self.head = nn.Linear(8, 7)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.class_token.expand(x.shape[0], -1, -1), x], dim=1) + self.positions
        return self.head(self.norm(self.encoder(x))[:, 0])  # type: ignore[no-any-return]


class _Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.projection = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU("tanh"), nn.Linear(2 * width, width))
        self.heads = heads

    def forward(self, x: Tensor) -> Tensor:
        batch, tokens, width = x.shape
        qkv = self.qkv(self.norm1(x)).reshape(batch, tokens, 3, self.heads, width // self.heads)
        query, key, value = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        mixed = F.scaled_dot_product_attention(query, key, value).transpose(1, 2).reshape(batch, tokens, width)
        x = x + self.projection(mixed)
        return x + self.mlp(self.norm2(x))  # type: ignore[no-any-return]


SMALL_NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "basic_resnet": basic_resnet,
    "bottleneck_resnet": bottleneck_resnet,
    "mobilenet_v2": mobilenet_v2,
    "mobilenet_v3": mobilenet_v3,
    "transformer": transformer,
    "own_transformer": own_transformer,
}

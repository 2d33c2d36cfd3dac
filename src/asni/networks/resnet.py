"""ResNet-18 and ResNet-50 for ImageNet, with torchvision's parameter names, so that its weights can be loaded."""

from torch import Tensor, nn

from asni.networks.initial import initialise

WIDTHS = (64, 128, 256, 512)


def resnet18(shape: tuple[int, int, int], classes: int) -> nn.Module:
    """Eight residual blocks of two 3x3 convolutions.

    >>> sum(p.numel() for p in resnet18((3, 32, 32), 10).parameters())
    11181642
    """
    return ResNet(BasicBlock, (2, 2, 2, 2), shape[0], classes)


def resnet50(shape: tuple[int, int, int], classes: int) -> nn.Module:
    """Sixteen residual blocks of 1x1, 3x3 and 1x1 convolutions; the 3x3 one carries the stride.

    >>> from torch import device
    >>> with device("meta"):
    ...     sum(p.numel() for p in resnet50((3, 224, 224), 1000).parameters())
    25557032
    """
    return ResNet(Bottleneck, (3, 4, 6, 3), shape[0], classes)


class BasicBlock(nn.Module):
    """Two 3x3 convolutions with a shortcut."""

    expansion = 1

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, kernel_size=3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, kernel_size=3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = _shortcut(channels, width * self.expansion, stride)

    def forward(self, x: Tensor) -> Tensor:
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += x if self.downsample is None else self.downsample(x)
        return self.relu(out)  # type: ignore[no-any-return]


class Bottleneck(nn.Module):
    """A 1x1 convolution that narrows, a 3x3 one, and a 1x1 one that widens, with a shortcut."""

    expansion = 4

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, kernel_size=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, kernel_size=3, stride=stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, width * self.expansion, kernel_size=1, bias=False)
        self.bn3 = nn.BatchNorm2d(width * self.expansion)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = _shortcut(channels, width * self.expansion, stride)

    def forward(self, x: Tensor) -> Tensor:
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        out += x if self.downsample is None else self.downsample(x)
        return self.relu(out)  # type: ignore[no-any-return]


class ResNet(nn.Module):
    """A 7x7 stem, four stages of residual blocks, average pooling, one linear layer."""

    def __init__(
        self, block: type[BasicBlock] | type[Bottleneck], depths: tuple[int, int, int, int], channels: int, classes: int
    ) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, WIDTHS[0], kernel_size=7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(WIDTHS[0])
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(kernel_size=3, stride=2, padding=1)
        self.layer1 = _stage(block, WIDTHS[0], WIDTHS[0], depths[0], stride=1)
        self.layer2 = _stage(block, WIDTHS[0] * block.expansion, WIDTHS[1], depths[1], stride=2)
        self.layer3 = _stage(block, WIDTHS[1] * block.expansion, WIDTHS[2], depths[2], stride=2)
        self.layer4 = _stage(block, WIDTHS[2] * block.expansion, WIDTHS[3], depths[3], stride=2)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(WIDTHS[3] * block.expansion, classes)
        initialise(self)

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(self.avgpool(x).flatten(1))  # type: ignore[no-any-return]


def _stage(
    block: type[BasicBlock] | type[Bottleneck], channels: int, width: int, depth: int, stride: int
) -> nn.Sequential:
    first = block(channels, width, stride)
    return nn.Sequential(first, *(block(width * block.expansion, width, stride=1) for _ in range(depth - 1)))


def _shortcut(channels: int, wide: int, stride: int) -> nn.Sequential | None:
    if stride == 1 and channels == wide:
        return None
    return nn.Sequential(
        nn.Conv2d(channels, wide, kernel_size=1, stride=stride, bias=False),
        nn.BatchNorm2d(wide),
    )

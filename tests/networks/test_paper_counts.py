"""Every network of the paper's first table has exactly the parameters that it prints."""

import pytest
import torch
from torch import nn

from asni.networks import build, check_output
from asni.networks.resnet import BasicBlock, Bottleneck

MNIST, CIFAR, IMAGENET = (1, 28, 28), (3, 32, 32), (3, 224, 224)


@pytest.mark.parametrize(
    ("name", "shape", "classes", "parameters", "weight_layers"),
    [
        ("fc", MNIST, 10, 266_610, 3),
        ("fc", (1, 8, 8), 10, 50_610, 3),
        ("conv2", MNIST, 10, 3_317_450, 5),
        ("conv4", MNIST, 10, 1_933_258, 7),
        ("conv6", MNIST, 10, 1_802_698, 9),
        ("conv2", CIFAR, 10, 4_301_642, 5),
        ("conv4", CIFAR, 10, 2_425_930, 7),
        ("conv6", CIFAR, 10, 2_262_602, 9),
        ("vgg11", CIFAR, 10, 9_231_114, 9),
        ("vgg13", CIFAR, 10, 9_416_010, 11),
        ("vgg16", CIFAR, 10, 14_728_266, 14),
        ("resnet18", CIFAR, 10, 11_181_642, 21),
        ("resnet50", IMAGENET, 1000, 25_557_032, 54),
    ],
)
def test_parameters_layers_and_outputs(
    name: str, shape: tuple[int, int, int], classes: int, parameters: int, weight_layers: int
) -> None:
    with torch.device("meta"):
        model = build(name, shape, classes)
    assert sum(p.numel() for p in model.parameters()) == parameters
    assert sum(isinstance(m, nn.Conv2d | nn.Linear) for m in model.modules()) == weight_layers
    check_output(model, shape, classes)


def test_resnet_has_the_parameter_names_of_torchvision() -> None:
    with torch.device("meta"):
        keys = build("resnet50", IMAGENET, 1000).state_dict().keys()
    assert {
        "conv1.weight",
        "bn1.running_var",
        "layer1.0.downsample.1.bias",
        "layer4.2.conv3.weight",
        "fc.bias",
    } <= keys
    assert len(keys) == 320


@pytest.mark.parametrize("name", ["fc", "conv6", "vgg11", "resnet18"])
def test_a_batch_gives_every_parameter_a_gradient(name: str) -> None:
    torch.manual_seed(0)
    model = build(name, CIFAR, 10)
    loss = nn.functional.cross_entropy(model(torch.randn(2, *CIFAR)), torch.tensor([3, 7]))
    loss.backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize("block", [BasicBlock(8, 8, stride=1), Bottleneck(32, 8, stride=1)])
def test_a_residual_block_whose_last_norm_is_zero_passes_its_input_on(block: BasicBlock | Bottleneck) -> None:
    last = block.bn2 if isinstance(block, BasicBlock) else block.bn3
    nn.init.zeros_(last.weight)
    images = torch.randn(2, block.conv1.in_channels, 5, 5)
    assert torch.equal(block(images), images.relu())

"""Steps give what the model gives in training mode, with the same gradients; anything else is refused by name."""

import random
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from asni.networks import build
from asni.networks.resnet import BasicBlock
from asni.sparse.steps import UnsupportedError
from asni.sparse.tracing.tracing import traced
from tests.sparse import torch_steps
from tests.sparse.small_models import Own, on_images

CIFAR = (3, 32, 32)


def kinds(model: nn.Module, shape: tuple[int, ...]) -> list[str]:
    return [step.kind for step in traced(model, torch.zeros(1, *shape)).steps]


def state_of(model: nn.Module) -> dict[str, Tensor]:
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}


def assert_same_training(model: nn.Module, shape: tuple[int, ...] = (3, 7, 7), items: int = 3) -> None:
    """The output, the gradients of all parameters and the buffers afterwards are those of the model."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) / 10)
    steps = traced(model, torch.randn(1, *shape))
    # In double precision, so that batch norm of almost equal numbers is no matter of rounding.
    model, images = deepcopy(model).double(), torch.randn(items, *shape).double()
    own, run = state_of(model), deepcopy(model)
    expected = _trained(lambda: run(images.clone()))
    found = _trained(lambda: torch_steps.run(steps, images, own))
    torch.testing.assert_close(found, expected)
    for name, tensor in state_of(run).items():
        torch.testing.assert_close(own[name], tensor, msg=name)
        torch.testing.assert_close(own[name].grad, tensor.grad, rtol=1e-5, atol=1e-6, msg=name)


def _trained(forward: Callable[[], Tensor]) -> Tensor:
    """The output after a backward pass, with the same random numbers each time."""
    torch.manual_seed(1)
    output = forward()
    (output * torch.linspace(-1, 1, output.numel()).view_as(output)).sum().backward()
    return output


STEM = ["conv", "batch_norm", "pool"]
BASIC, BOTTLENECK = ["conv", "batch_norm"] * 2, ["conv", "batch_norm"] * 3
SHORTCUT, VGG = ["conv", "batch_norm"], ["conv", "batch_norm", "pool"]


@pytest.mark.parametrize(
    ("name", "shape", "expected"),
    [
        ("fc", (1, 28, 28), ["flatten", "linear", "linear", "linear"]),
        ("conv2", (1, 28, 28), ["conv", "conv", "pool", "flatten", "linear", "linear", "linear"]),
        ("conv6", CIFAR, [*["conv", "conv", "pool"] * 3, "flatten", "linear", "linear", "linear"]),
        ("vgg11", CIFAR, [*VGG * 2, *(SHORTCUT + VGG) * 3, "linear"]),
        ("resnet18", (3, 64, 64), [*STEM, *BASIC * 2, *(BASIC + SHORTCUT + BASIC) * 3, "pool", "linear"]),
        (
            "resnet50",
            (3, 64, 64),
            [
                *STEM,
                *BOTTLENECK + SHORTCUT + BOTTLENECK * 2,
                *BOTTLENECK + SHORTCUT + BOTTLENECK * 3,
                *BOTTLENECK + SHORTCUT + BOTTLENECK * 5,
                *BOTTLENECK + SHORTCUT + BOTTLENECK * 2,
                "pool",
                "linear",
            ],
        ),
    ],
)
def test_the_papers_networks_in_as_few_steps_as_can_be(name: str, shape: Any, expected: list[str]) -> None:
    assert kinds(build(name, shape, 10), shape) == expected


@pytest.mark.parametrize("name", ["fc", "conv2", "conv6", "vgg11", "resnet18"])
def test_the_papers_networks_train_alike(name: str) -> None:
    torch.manual_seed(0)
    assert_same_training(build(name, CIFAR, 10), CIFAR)


def test_a_residual_block_is_its_batch_norms() -> None:
    block = Own(lambda self, x: self.fc(self.block(x).mean((2, 3))), block=BasicBlock(4, 8, 2), fc=nn.Linear(8, 5))
    steps = traced(block, torch.zeros(1, 4, 6, 6)).steps
    assert [step.name for step in steps] == [
        "block.conv1", "block.bn1", "block.conv2", "block.bn2", "block.downsample.0", "block.downsample.1", "Own", "fc",
    ]  # fmt: skip
    assert [step.settings.get("relu") for step in steps] == [False, True, False, False, False, True, None, False]
    assert steps[5].inputs == (steps[4].output, steps[3].output)
    assert dict(steps[5].parameters) == {
        "weight": "block.downsample.1.weight",
        "bias": "block.downsample.1.bias",
        "running_mean": "block.downsample.1.running_mean",
        "running_var": "block.downsample.1.running_var",
        "num_batches_tracked": "block.downsample.1.num_batches_tracked",
    }


def test_values_are_maps_of_one_item() -> None:
    steps = traced(nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 2)), torch.zeros(8, 6))
    assert list(steps.shapes.values()) == [(1, 6, 1, 1), (1, 4, 1, 1), (1, 2, 1, 1)]
    assert [steps.input, *(step.output for step in steps.steps)] == list(steps.shapes)
    assert steps.output == steps.steps[-1].output


def test_settings_of_a_convolution() -> None:
    conv = nn.Conv2d(4, 6, (3, 4), stride=(1, 1), padding="same", dilation=(2, 1), groups=2)
    (step, *_) = traced(nn.Sequential(conv, nn.Flatten(), nn.Linear(6 * 49, 5)), torch.zeros(1, 4, 7, 7)).steps
    expected = {"stride": (1, 1), "dilation": (2, 1), "pads": (2, 1, 2, 2), "groups": 2, "relu": False}
    assert dict(step.settings) == expected
    assert dict(step.parameters) == {"weight": "0.weight", "bias": "0.bias"}


@pytest.mark.parametrize(
    "conv",
    [
        nn.Conv2d(4, 6, 3, stride=2, padding=1, bias=False),
        nn.Conv2d(4, 6, (2, 4), padding="same"),
        nn.Conv2d(4, 6, 3, padding="valid", dilation=(1, 2)),
        nn.Conv2d(4, 8, (1, 3), stride=(3, 1), padding=(2, 0), groups=4),
        nn.Conv2d(4, 4, 5, padding=(0, 2), dilation=(1, 3), groups=2, padding_mode="zeros", stride=(1, 2)),
    ],
    ids=str,
)
def test_convolutions(conv: nn.Conv2d) -> None:
    assert_same_training(on_images(conv, nn.ReLU(), size=9), (3, 9, 9))


@pytest.mark.parametrize(
    "pool",
    [
        nn.MaxPool2d(2),
        nn.MaxPool2d(3, 2, 1, ceil_mode=True),
        nn.MaxPool2d((2, 3), (1, 2), (1, 0), dilation=(2, 1)),
        nn.MaxPool2d(2, 1, 1, dilation=3),
        nn.AvgPool2d(2),
        nn.AvgPool2d(3, 2, 1),
        nn.AvgPool2d((3, 2), (2, 3), (1, 0), ceil_mode=True),
        nn.AvgPool2d(3, 2, 1, ceil_mode=True, count_include_pad=False),
        nn.AvgPool2d(2, 2, 1, divisor_override=3, ceil_mode=True),
        nn.AdaptiveAvgPool2d((3, 5)),
        nn.AdaptiveAvgPool2d((None, 1)),
        nn.AdaptiveAvgPool2d(9),
        nn.AdaptiveAvgPool2d(7),
        nn.AdaptiveMaxPool2d((4, 2)),
    ],
    ids=str,
)
def test_pools(pool: nn.Module) -> None:
    assert_same_training(on_images(nn.ReLU(), pool))


def test_a_pool_names_the_rows_and_the_columns_of_its_windows() -> None:
    pool = nn.AvgPool2d((2, 3), (2, 3), (0, 1), count_include_pad=False)
    step = traced(on_images(pool), torch.zeros(1, 3, 7, 7)).steps[1]
    assert step.settings["rows"].tolist() == [[0, 2], [2, 4], [4, 6]]
    assert step.settings["columns"].tolist() == [[0, 2], [2, 5], [5, 7]]
    assert step.settings["scale"] * 12 == pytest.approx(np.array([[3, 2, 3]] * 3))
    assert step.settings["rows"].dtype == step.settings["columns"].dtype == np.int32
    assert step.settings["scale"].dtype == np.float32
    assert (step.settings["mode"], step.settings["dilation"]) == ("average", (1, 1))


@pytest.mark.parametrize(
    "norm",
    [
        nn.BatchNorm2d(4),
        nn.BatchNorm2d(4, momentum=0.3, eps=0.1),
        nn.BatchNorm2d(4, momentum=None),
        nn.BatchNorm2d(4, affine=False),
        nn.BatchNorm2d(4, track_running_stats=False),
        nn.BatchNorm2d(4, momentum=None, track_running_stats=False),
        nn.BatchNorm2d(4, affine=False, track_running_stats=False),
    ],
    ids=str,
)
def test_batch_norms(norm: nn.Module) -> None:
    model = on_images(norm, nn.ReLU())
    assert_same_training(model)
    assert_same_training(model)


def test_a_batch_norm_without_a_bias() -> None:
    norm = nn.BatchNorm2d(4)
    norm.register_parameter("bias", None)
    assert_same_training(on_images(norm, nn.ReLU()))


def test_batch_norm_of_features() -> None:
    assert_same_training(nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2)), (6,))


def test_the_momentum_of_a_cumulative_average_is_none() -> None:
    steps = traced(on_images(nn.BatchNorm2d(4, momentum=None), nn.BatchNorm2d(4)), torch.zeros(1, 3, 7, 7)).steps
    assert [step.settings["momentum"] for step in steps[1:3]] == [None, 0.1]


FUNCTIONS: dict[str, Callable[[Any, Tensor], Tensor]] = {
    "functional relu": lambda self, x: F.relu(x),
    "relu in place": lambda self, x: F.relu_(x),
    "relu of a relu": lambda self, x: x.relu().relu(),
    "relu read before and after": lambda self, x: x + x.relu(),
    "sum": lambda self, x: self.conv(x) + x,
    "sum in place": lambda self, x: self.conv(x).add_(x),
    "torch.add": lambda self, x: torch.add(x, self.conv(x)).relu(),
    "twice itself": lambda self, x: (y := self.norm(x)) + y,
    "norm and its own input": lambda self, x: (self.norm(x) + x).relu(),
    "norm before what is added": lambda self, x: (self.norm(x) + self.conv(x)).relu_(),
    "norm with relu plus x": lambda self, x: (self.norm(self.conv(x)).relu() + x).relu(),
    "two sums": lambda self, x: self.norm(x) + self.conv(x) + x,
    "norm read twice": lambda self, x: (y := self.norm(x)) + self.conv(y),
    "channels last": lambda self, x: self.conv(x.to(memory_format=torch.channels_last)).contiguous(),
    "clone": lambda self, x: x.clone().relu_() + x,
    "old name after in place": lambda self, x: [x, x.relu_()][0] + self.conv(x),
    "copy to the type of a weight": lambda self, x: x.to(self.conv.weight).to(self.conv.weight.dtype).relu(),
    "dropout": lambda self, x: F.dropout(x.relu(), 0.4),
    "dropout in place": lambda self, x: F.dropout(self.conv(x), 0.4, inplace=True),
    "no dropout": lambda self, x: F.dropout(F.dropout(x, 0.0), 0.9, training=False).relu_(),
    "flat": lambda self, x: x.flatten(2).flatten(1),
    "flat and back": lambda self, x: x.view(-1, 4, 49).view(x.shape),
    "view": lambda self, x: x.view(x.size(0), -1),
    "reshape": lambda self, x: x.reshape(-1, 4 * 7 * 7),
    "global mean": lambda self, x: x.mean((-1, 2)),
    "global mean and squeeze": lambda self, x: x.mean((2, 3), keepdim=True).squeeze(-1).squeeze(-1),
    "squeeze of dimensions": lambda self, x: F.adaptive_max_pool2d(x, 1).squeeze((2, 3)),
    "features as a map": lambda self, x: self.conv(x.mean((2, 3)).view(-1, 4, 1, 1)),
    "what is not needed": lambda self, x: (x.sigmoid(), self.conv(x), x)[2].relu(),
}  # fmt: skip


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_functions(function: Callable[[Any, Tensor], Tensor]) -> None:
    torch.manual_seed(0)
    body = Own(function, conv=nn.Conv2d(4, 4, 3, padding=1), norm=nn.BatchNorm2d(4))
    assert_same_training(on_images(body))


def test_a_relu_on_the_input_is_a_step_of_its_own() -> None:
    model = nn.Sequential(nn.ReLU(), nn.Flatten(), nn.Linear(3 * 7 * 7, 5))
    (step, *_) = traced(model, torch.zeros(1, 3, 7, 7)).steps
    assert (step.kind, step.inputs, dict(step.settings)) == ("add", ("input",), {"relu": True})
    assert_same_training(model)


def test_a_model_in_channels_last() -> None:
    images = torch.zeros(4, 3, 7, 7).contiguous(memory_format=torch.channels_last)
    model = on_images(nn.BatchNorm2d(4), nn.ReLU())
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    assert_same_training(model)
    assert [step.kind for step in traced(model, images).steps] == ["conv", "batch_norm", "flatten", "linear"]


def test_a_forward_hook_is_part_of_the_network() -> None:
    model = on_images(nn.ReLU())
    model[0].register_forward_hook(lambda module, inputs, output: output + output.relu())
    assert_same_training(model)


def test_a_parameter_with_two_names_has_the_first() -> None:
    model = Own(lambda self, x: self.b(x), a=(layer := nn.Linear(3, 2)), b=layer)
    assert traced(model, torch.zeros(1, 3)).steps[0].parameters["weight"] == "a.weight"


def test_a_parameter_that_gets_no_gradient_is_in_no_step() -> None:
    model = Own(lambda self, x: [self.unused(x), self.fc(x)][1], fc=nn.Linear(3, 2), unused=nn.Linear(3, 2))
    assert [step.name for step in traced(model, torch.zeros(1, 3)).steps] == ["fc"]
    assert_same_training(model, (3,))


def test_the_model_and_random_numbers_stay_as_they_are() -> None:
    dropouts = nn.Dropout(0.5), nn.Dropout(0.5).eval()
    model = on_images(nn.BatchNorm2d(4, momentum=None), nn.BatchNorm2d(4), *dropouts, BasicBlock(4, 4, 1))
    images = torch.randn(2, 3, 7, 7)
    model(images).sum().backward()
    before, tensors = _everything(model), state_of(model)
    values = {name: (tensor.clone(), tensor._version) for name, tensor in tensors.items()}
    traced(model, images)
    assert _everything(model) == before
    for name, tensor in state_of(model).items():
        assert tensor is tensors[name]
        assert tensor._version == values[name][1]
        assert torch.equal(tensor, values[name][0])


def drawing(self: Any, x: Tensor) -> Tensor:
    return x.relu() if random.random() + np.random.rand() < 2 else x


def storing(self: Any, x: Tensor) -> Tensor:
    self.seen = x
    return x.relu()


@pytest.mark.parametrize("forward", [drawing, storing])
def test_a_refused_model_stays_as_it_is(forward: Callable[[Any, Tensor], Tensor]) -> None:
    model = on_images(nn.BatchNorm2d(4, momentum=None), Own(forward))
    model(torch.zeros(2, 3, 7, 7))
    before = _everything(model)
    with pytest.raises(UnsupportedError):
        traced(model, torch.zeros(2, 3, 7, 7))
    assert _everything(model) == before


def _everything(model: nn.Module) -> list[object]:
    """What each module has, by identity, and the states of all random numbers."""
    has = [
        (name, id(value)) for module in model.modules() for name, value in vars(module).items() if name != "training"
    ]
    modes = [module.training for module in model.modules()]
    tensors = [(name, id(each), id(each.grad), each.requires_grad) for name, each in state_of(model).items()]
    drawn = torch.get_rng_state().tolist(), random.getstate(), str(np.random.get_state())
    return [has, modes, tensors, drawn, torch.is_grad_enabled()]


@st.composite
def networks(draw: st.DrawFn) -> nn.Module:
    """Random layers and residual blocks on maps."""
    size, layers = 9, list[nn.Module]()
    for _ in range(draw(st.integers(0, 5))):
        made, size = draw(st.sampled_from([_drawn_conv, _drawn_pool, _drawn_block, _drawn_elements]))(draw, size)
        layers.append(made)
    return on_images(*layers, size=9)


def _drawn_conv(draw: st.DrawFn, size: int) -> tuple[nn.Module, int]:
    kernel, stride, padding = draw(st.integers(1, min(3, size))), draw(st.integers(1, 2)), draw(st.integers(0, 2))
    conv = nn.Conv2d(4, 4, kernel, stride, padding, groups=draw(st.sampled_from([1, 2, 4])))
    return conv, (size + 2 * padding - kernel) // stride + 1


def _drawn_pool(draw: st.DrawFn, size: int) -> tuple[nn.Module, int]:
    kernel, stride, ceil = draw(st.integers(1, min(3, size))), draw(st.integers(1, 3)), draw(st.booleans())
    padding = draw(st.integers(0, kernel // 2))
    pool: nn.Module = nn.MaxPool2d(kernel, stride, padding, ceil_mode=ceil)
    if draw(st.booleans()):
        pool = nn.AvgPool2d(kernel, stride, padding, ceil, draw(st.booleans()))
    return pool, pool(torch.zeros(1, 1, size, size)).shape[-1]


def _drawn_block(draw: st.DrawFn, size: int) -> tuple[nn.Module, int]:
    def branch() -> nn.Module:
        parts = [nn.Conv2d(4, 4, 1), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.Dropout(0.3)]
        return nn.Sequential(*draw(st.lists(st.sampled_from(parts), max_size=4, unique=True)))

    ending = draw(st.sampled_from([nn.ReLU(), nn.ReLU(inplace=True), nn.Identity()]))
    return Own(
        lambda self, x: self.end(self.a(x.clone()) + self.b(x.clone())), a=branch(), b=branch(), end=ending
    ), size


def _drawn_elements(draw: st.DrawFn, size: int) -> tuple[nn.Module, int]:
    return draw(st.sampled_from([nn.ReLU(), nn.BatchNorm2d(4), nn.Dropout(0.2)])), size


@settings(max_examples=40)
@given(networks(), st.integers(2, 4))
def test_random_networks(model: nn.Module, items: int) -> None:
    torch.manual_seed(0)
    assert_same_training(model, (3, 9, 9), items)

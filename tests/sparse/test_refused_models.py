"""What the kernels cannot train is refused in one line that names the module and the operator."""

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from torch.nn.utils import parametrizations, prune
from torch.utils.checkpoint import checkpoint

from asni.sparse.steps import UnsupportedError
from asni.sparse.tracing.tracing import traced
from tests.sparse.small_models import Own, on_images

IMAGES = torch.zeros(4, 3, 7, 7)


def reason(model: nn.Module, example: Tensor = IMAGES) -> str:
    """Why it is refused: one line."""
    with pytest.raises(UnsupportedError) as caught:
        traced(model, example)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def frozen(layer: nn.Module, name: str) -> nn.Module:
    layer.get_parameter(name).requires_grad_(False)
    return layer


@pytest.mark.parametrize(
    ("layer", "expected"),
    [
        (nn.GELU(), "1: aten.gelu has no kernel"),
        (nn.ReLU6(), "1: aten.hardtanh has no kernel"),
        (nn.LeakyReLU(inplace=True), "1: aten.leaky_relu_ has no kernel"),
        (nn.Softmax(1), "1: aten.softmax.int has no kernel"),
        (nn.ConvTranspose2d(4, 4, 3), "1: aten.conv_transpose2d.input has no kernel"),
        (nn.Conv2d(4, 4, 3, padding=1, padding_mode="reflect"), "1: aten.pad has no kernel"),
        (nn.GroupNorm(2, 4), "1: aten.group_norm has no kernel"),
        (nn.InstanceNorm2d(4), "1: aten.instance_norm has no kernel"),
        (nn.Dropout2d(), "1: aten.feature_dropout has no kernel"),
        (nn.Dropout(1.0), "1: aten.dropout has probability 1"),
        (nn.BatchNorm2d(4).eval(), "1: aten.batch_norm is in evaluation mode"),
        (nn.MaxPool2d(2, 1, 1, dilation=8), "1: aten.max_pool2d has a window that lies in the padding alone"),
        (frozen(nn.Conv2d(4, 4, 3), "bias"), "1: aten.conv2d has 1.bias frozen"),
        (frozen(nn.BatchNorm2d(4), "weight"), "1: aten.batch_norm has 1.weight frozen"),
        (parametrizations.weight_norm(nn.Conv2d(4, 4, 3)), "1: aten.conv2d has a weight that is not a parameter"),
        (prune.l1_unstructured(nn.Conv2d(4, 4, 3), "weight", 0.5), "Sequential: its forward stores 1.weight"),
    ],
    ids=str,
)
def test_layers(layer: nn.Module, expected: str) -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), layer, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 5))
    assert expected in reason(model)


@pytest.mark.parametrize(
    ("layer", "expected"),
    [
        (nn.Unflatten(1, (2, 2)), "1: aten.unflatten.int has no kernel"),
        (nn.PixelShuffle(2), "1: aten.pixel_shuffle has no kernel"),
        (nn.Flatten(0, 1), "1: aten.flatten.using_ints makes a tensor that is not one row for each item of the batch"),
    ],
    ids=str,
)
def test_shapes(layer: nn.Module, expected: str) -> None:
    assert expected in reason(nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), layer, nn.Flatten()))


def no_grad(self: Any, x: Tensor) -> Tensor:
    with torch.no_grad():
        x = self.conv(x)
    return x.relu()


def autocast(self: Any, x: Tensor) -> Tensor:
    with torch.autocast("cpu"):
        return self.conv(x).float()  # type: ignore[no-any-return]


def overwritten_view(self: Any, x: Tensor) -> Tensor:
    flat = x.view(x.shape[0], -1)
    x.relu_()
    return flat


def overwritten_base(self: Any, x: Tensor) -> Tensor:
    flat = x.view(x.shape[0], -1)
    flat.relu_()
    return x


def overwritten_part(self: Any, x: Tensor) -> Tensor:
    x[:, 0].relu_()
    return x


def changed_parameter(self: Any, x: Tensor) -> Tensor:
    self.conv.weight.data.clamp_(-1, 1)
    return self.conv(x)  # type: ignore[no-any-return]


def changed_buffer(self: Any, x: Tensor) -> Tensor:
    self.norm.num_batches_tracked.add_(2)
    return x.relu()


def own_counter(self: Any, x: Tensor) -> Tensor:
    self.norm.num_batches_tracked.add_(1)
    return x.relu()


def unneeded_norm(self: Any, x: Tensor) -> Tensor:
    self.norm(x)
    return x.relu()


class Doubling(torch.autograd.Function):
    """A ReLU with twice the gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.relu()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return 2 * gradient


def own_gradient(self: Any, x: Tensor) -> Any:
    return Doubling.apply(x)  # type: ignore[no-untyped-call]


def hooked_gradient(self: Any, x: Tensor) -> Tensor:
    if x.requires_grad:
        x.register_hook(lambda gradient: gradient / 2)
    return x.relu()


def skipped_at_random(self: Any, x: Tensor) -> Tensor:
    return self.conv(x) if random.random() < 2 else x


def skipped_by_numpy(self: Any, x: Tensor) -> Tensor:
    return self.conv(x) if np.random.rand() < 2 else x


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda self, x: x.sigmoid().relu_(), "1: aten.sigmoid has no kernel"),
        (lambda self, x: x + 1, "1: aten.add.Tensor takes a number where"),
        (lambda self, x: x + self.bias, "1: aten.add.Tensor takes 1.bias where"),
        (lambda self, x: x + x.mean((2, 3), keepdim=True), "1: aten.add.Tensor is of shapes (4, 7, 7) and (4, 1, 1)"),
        (lambda self, x: torch.add(x, x, alpha=2), "with alpha=2"),
        (lambda self, x: x * 2, "1: aten.mul.Tensor has no kernel"),
        (lambda self, x: x.mean(1, keepdim=True), "1: aten.mean.dim is not over height and width"),
        (lambda self, x: F.max_pool2d(x, 2, return_indices=True)[1].float(), "aten.max_pool2d_with_indices"),
        (lambda self, x: x.double().float(), "1: aten.to.dtype computes in torch.float64"),
        (lambda self, x: x.detach(), "1: aten.detach has no kernel"),
        (lambda self, x: F.conv2d(x, self.kernel), "1: aten.conv2d has a weight that is not a parameter"),
        (lambda self, x: F.conv2d(x, self.conv.weight * 2), "1: aten.conv2d has a weight that is not a parameter"),
        (lambda self, x: self.conv(self.conv(x)), "1.conv.weight is used twice"),
        (lambda self, x: self.plain(self.plain(x)), "1.plain.running_mean is used twice"),
        (lambda self, x: x.view(2, 4, 7, 7), "does not treat all batch sizes alike; if it calls len(x)"),
        (lambda self, x: x.view(len(x), 4, 7, 7), "does not treat all batch sizes alike"),
        (lambda self, x: x.view(-1, 2, 7, 7), "1: aten.view makes a tensor that is not one row for each item"),
        (lambda self, x: x.relu() if x.shape[0] > 50 else x, "does not treat all batch sizes alike"),
        (lambda self, x: x.view(-1, 7, 4, 7), "1: aten.view makes items of shape (7, 4, 7) from (4, 7, 7)"),
        (lambda self, x: x.relu() if x.sum() > 0 else x, "cannot be exported by torch.export"),
        (no_grad, "1: wrap_with_set_grad_enabled changes how torch computes"),
        (autocast, "1: wrap_with_autocast changes how torch computes"),
        (overwritten_view, "1: aten.relu_ overwrites what is read later"),
        (overwritten_base, "1: aten.relu_ overwrites what is read later"),
        (overwritten_part, "1: aten.s"),
        (changed_parameter, "cannot be exported by torch.export"),
        (changed_buffer, "1: aten.add_.Tensor changes 1.norm.num_batches_tracked"),
        (own_counter, "1.norm.num_batches_tracked counts something else"),
        (unneeded_norm, "1.norm: aten.batch_norm keeps statistics of what the output does not need"),
        (own_gradient, "Doubling computes a gradient of its own"),
        (hooked_gradient, "registers a hook on a gradient"),
        (lambda self, x: checkpoint(self.conv, x, use_reentrant=True), "changes how torch computes"),
        (skipped_at_random, "draws random numbers with Python or NumPy"),
        (skipped_by_numpy, "draws random numbers with Python or NumPy"),
    ],
)
def test_functions(function: Callable[[Any, Tensor], Tensor], expected: str) -> None:
    body = Own(function, conv=nn.Conv2d(4, 4, 3, padding=1), norm=nn.BatchNorm2d(4))
    body.plain = nn.BatchNorm2d(4, affine=False)
    body.register_parameter("bias", nn.Parameter(torch.zeros(4, 7, 7)))
    body.register_buffer("kernel", torch.zeros(4, 4, 3, 3))
    model = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LazyLinear(5))
    model(torch.zeros(2, 3, 7, 7))
    assert expected in reason(model)


@pytest.mark.parametrize(
    "generator",
    [random.Random(0), np.random.default_rng(0), np.random.RandomState(0), torch.Generator()],
    ids=lambda generator: type(generator).__name__,
)
def test_generators_of_random_numbers(generator: Any) -> None:
    body = Own(lambda self, x: x)
    vars(body)["chance"] = generator
    assert reason(nn.Sequential(nn.Flatten(), body, nn.Linear(147, 5))) == (
        "1.chance is a generator of random numbers, and the kernels draw none"
    )


def test_conv_1d_and_3d() -> None:
    line = nn.Sequential(nn.Linear(3, 6), nn.Unflatten(1, (2, 3)), nn.Conv1d(2, 2, 3), nn.Flatten())
    assert reason(line, torch.zeros(1, 3)) == "1: aten.unflatten.int has no kernel that trains it"
    assert "an input of shape (1, 2, 5, 5, 5)" in reason(nn.Conv3d(2, 2, 3), torch.zeros(1, 2, 5, 5, 5))
    assert "an input of shape (1, 2, 5)" in reason(nn.Conv1d(2, 2, 3), torch.zeros(1, 2, 5))


def test_weights_that_lie_in_the_memory_of_others() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3))
    model[2].register_parameter("weight", model[0].get_parameter("weight"))
    assert "0.weight is used twice" in reason(model, torch.zeros(1, 3))
    model[2].register_parameter("weight", nn.Parameter(model[0].get_parameter("weight").data))
    assert "shares memory with" in reason(model, torch.zeros(1, 3))


def test_backward_hooks() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    handle = model[0].register_full_backward_hook(lambda *_: None)
    assert "0 has a backward hook" in reason(model, torch.zeros(1, 3))
    handle.remove()
    model[0].get_parameter("weight").register_hook(lambda gradient: gradient / 2)
    assert "0: aten.linear has a hook on the gradient of 0.weight" in reason(model, torch.zeros(1, 3))


@pytest.mark.parametrize(
    "function",
    [
        lambda self, x: self.fc(x.flatten(1).squeeze()),
        lambda self, x: self.fc(x.flatten(1) if x.shape[0] != 1 else x.relu().flatten(1)),
    ],
)
def test_a_batch_of_one_item_as_another_case(function: Callable[[Any, Tensor], Tensor]) -> None:
    expected = "Own: its forward does not treat a batch of one item as others"
    assert reason(Own(function, fc=nn.Linear(147, 5))) == expected


def test_in_place_on_the_input() -> None:
    model = nn.Sequential(nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(147, 5))
    assert reason(model) == "0: aten.relu_ overwrites the input; no kernel does that"


def test_weights_of_other_types() -> None:
    assert "cannot be exported" in reason(on_images().double())
    model = on_images().to("meta")
    assert "0: aten.conv2d has 0.weight of torch.float32 on meta" in reason(model, IMAGES.to("meta"))


@pytest.mark.parametrize(
    ("example", "expected"),
    [
        (torch.zeros(1, 3, 7, 7, dtype=torch.float64), "an input of torch.float64"),
        (torch.zeros(1, 3, 7, 7, dtype=torch.int64), "an input of torch.int64"),
        (torch.zeros(3, 7, 7), "an input of shape (3, 7, 7)"),
        (torch.zeros(0, 3, 7, 7), "an input of shape (0, 3, 7, 7)"),
        ([torch.zeros(1)], "an input of list"),
    ],
)
def test_inputs(example: Tensor, expected: str) -> None:
    assert expected in reason(on_images(), example)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda self, x: (self.fc(x), x), "Own returns more than one tensor"),
        (lambda self, x: (self.fc(x),), "Own returns more than one tensor"),
        (lambda self, x: {"logits": self.fc(x)}, "Own returns more than one tensor"),
        (lambda self, x: self.fc(x).view(-1, 2, 1, 1), "Own does not return a tensor of shape (N, classes)"),
        (lambda self, x: self.fc(x).sum(), "Own: aten.sum has no kernel"),
        (lambda self, x: x.relu(), "Own: its output depends on no parameter"),
        (lambda self, x, y: x, "cannot be exported by torch.export"),
        (lambda self, x: None, "Own does not return a tensor of shape (N, classes)"),
        (lambda self, x: self.fc.bias, "Own does not return a tensor of shape (N, classes)"),
    ],
)
def test_outputs(function: Callable[..., Any], expected: str) -> None:
    assert expected in reason(Own(function, fc=nn.Linear(3, 2)), torch.zeros(1, 3))


def test_evaluation_mode() -> None:
    assert reason(on_images().eval()) == "Sequential is in evaluation mode; call its train() first"

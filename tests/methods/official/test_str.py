"""STR beside the authors' program, RAIVNLab/STR."""

from collections import OrderedDict
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from asni.methods.soft_threshold import STR
from tests.methods.official.reading import tensors, vectors

INPUTS, OUTPUTS = vectors("str")
BATCHES = [(tensors(each)["images"], torch.tensor(each["labels"])) for each in INPUTS["batches"]]


def network() -> nn.Module:
    layers = {
        "conv1": nn.Conv2d(1, 2, 3, bias=False),
        "bn1": nn.BatchNorm2d(2),
        "relu": nn.ReLU(),
        "conv2": nn.Conv2d(2, 3, 3, bias=False),
        "conv3": nn.Conv2d(3, 3, 2, bias=False),
        "flatten": nn.Flatten(),
    }
    model = nn.Sequential(OrderedDict(layers)).double()
    model.load_state_dict(tensors(INPUTS["state"]), strict=False)
    return model


def with_str(model: nn.Module, settings: dict[str, Any]) -> tuple[torch.optim.Optimizer, STR]:
    """The program's optimiser; the weight decay that it has for the pruned weights is the one to be replaced."""
    optimizer = torch.optim.SGD(
        [
            {"params": [each for each in model.parameters() if each.ndim == 1], "weight_decay": 0.0},
            {"params": [each for each in model.parameters() if each.ndim > 1], "weight_decay": 0.7},
        ],
        lr=settings["lr"],
        momentum=settings["momentum"],
    )
    decays = {"decay": settings["weight_decay"], "threshold_decay": settings["st_decay"]}
    return optimizer, STR(model, optimizer, start=INPUTS["s_start"], **decays)


def assert_equal(actual: dict[str, Tensor], expected: dict[str, Any]) -> None:
    for name, value in tensors(expected).items():
        torch.testing.assert_close(actual[name].detach(), value, rtol=0, atol=1e-12, msg=name)


def test_forward_pass() -> None:
    model = network()
    with_str(model, INPUTS["optimizer"]["sgd"])
    images, labels = BATCHES[0]
    expected = OUTPUTS["forward"]
    assert_equal(dict(model.named_parameters()), expected["effective_weights"])
    output = model(images)
    assert_equal({"output": output}, {"output": expected["network_output_on_first_batch"]})
    assert cross_entropy(output, labels).item() == pytest.approx(expected["loss_on_first_batch"], abs=1e-12)


@pytest.mark.parametrize("case", INPUTS["optimizer"])
def test_steps(case: str) -> None:
    model = network()
    optimizer, pruner = with_str(model, INPUTS["optimizer"][case])
    for (images, labels), expected in zip(BATCHES, OUTPUTS[case]["after_step"], strict=True):
        optimizer.zero_grad()
        loss = cross_entropy(model(images), labels)
        torch.autograd.backward(loss)
        optimizer.step()
        assert loss.item() == pytest.approx(expected["loss_before"], abs=1e-12)
        assert_equal(dict(pruner.latent), expected["weights"])
        assert_equal(dict(pruner.scores), expected["s"])
        assert_equal(dict(model.named_parameters()), expected["effective_weights"])
        assert_equal(dict(model.named_parameters()), {key: expected[key] for key in ("bn1.weight", "bn1.bias")})

"""The values a network starts from."""

from math import sqrt

import pytest
import torch
from torch import nn

from asni.networks import NETWORKS, build, initialise, reset_biases_and_norms


@pytest.mark.parametrize("name", ["fc", "conv4", "vgg11", "resnet18"])
def test_weights_are_normal_with_the_variance_of_kaiming_and_the_rest_is_neutral(name: str) -> None:
    torch.manual_seed(0)
    model = build(name, (3, 32, 32), 10)
    for module in model.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            fan_in = module.weight[0].numel()
            error = 4 / sqrt(2 * module.weight.numel())
            assert module.weight.std().item() == pytest.approx(sqrt(2 / fan_in), rel=error)
            assert module.weight.abs().max() > 2.5 * sqrt(2 / fan_in)
        if isinstance(module, nn.BatchNorm2d):
            assert torch.equal(module.weight, torch.ones_like(module.weight))
    biases = [p for key, p in model.named_parameters() if key.endswith("bias")]
    assert biases
    assert not any(bias.any() for bias in biases)


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_build_without_memory_on_the_meta_device(name: str) -> None:
    with torch.device("meta"):
        assert all(p.is_meta for p in build(name, (3, 32, 32), 10).parameters())


def test_one_seed_gives_one_network() -> None:
    torch.manual_seed(5)
    first = build("fc", (1, 8, 8), 10).state_dict()
    torch.manual_seed(5)
    second = build("fc", (1, 8, 8), 10).state_dict()
    assert all(torch.equal(first[key], second[key]) for key in first)


def test_a_users_network_of_other_layers_is_initialised_too() -> None:
    conv, norm, lstm = nn.Conv1d(1, 4, 3), nn.LayerNorm(8, bias=False), nn.LSTM(8, 3)
    norm.weight.data.fill_(9.0)
    initialise(nn.Sequential(conv, nn.GroupNorm(2, 4, affine=False), norm, lstm))
    assert torch.equal(norm.weight, torch.ones(8))
    assert not conv.get_parameter("bias").any()
    assert not lstm.get_parameter("bias_ih_l0").any()


def test_a_reset_leaves_the_weights_alone() -> None:
    torch.manual_seed(0)
    linear, norm = nn.Linear(4, 4), nn.BatchNorm1d(4)
    model = nn.Sequential(linear, norm)
    norm.weight.data.fill_(3.0)
    model(torch.randn(8, 4))
    weight = linear.weight.clone()
    reset_biases_and_norms(model)
    assert torch.equal(linear.weight, weight)
    assert not linear.bias.any()
    fresh = nn.BatchNorm1d(4).state_dict()
    assert all(torch.equal(value, fresh[key]) for key, value in norm.state_dict().items())

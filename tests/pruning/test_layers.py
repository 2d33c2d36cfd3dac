"""Which weights are pruned: the matrices of layers, or what the user selects; and why the others are not."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import SGD

from asni.errors import AsniError, UsageError
from asni.methods.amenable import amenable
from asni.methods.asni import ASNI
from asni.methods.continuous import Continuous
from asni.methods.gmp import GMP
from asni.methods.magnitude import Magnitude
from asni.methods.rigl import SET, RigL
from asni.methods.soft_threshold import STR
from asni.networks import build
from asni.pruning.hold import Hold
from asni.pruning.layers import prunable, survey
from asni.pruning.masks import full_masks
from asni.pruning.pruner import Pruner


class Language(nn.Module):
    """An embedding with a tied head, positions of its own, attention and an LSTM."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(10, 4)
        self.positions = nn.Parameter(torch.zeros(5, 4))
        self.attention = nn.MultiheadAttention(4, 2)
        self.memory = nn.LSTM(4, 3)
        self.head = nn.Linear(4, 10)
        self.head.weight = self.embedding.weight


def resnet() -> nn.Module:
    with torch.device("meta"):
        return build("resnet18", (3, 32, 32), 10)


LSTM = ["memory.weight_ih_l0", "memory.weight_hh_l0"]
ATTENTION = ["attention.in_proj_weight", "attention.out_proj.weight"]


def test_matrices_of_layers_are_pruned_but_not_embeddings_nor_parameters_of_your_own() -> None:
    assert list(prunable(Language())) == [*ATTENTION, *LSTM]
    reasons = {each.name: each.left_out for each in survey(Language())}
    assert reasons["embedding.weight"] == "embedding"
    assert reasons["positions"] == "of no known layer"
    assert reasons["memory.bias_ih_l0"] == "norm, bias or vector"


class GraniteExperts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate_up_proj = nn.Parameter(torch.randn(4, 6, 3))
        self.gate_up_proj_bias = nn.Parameter(torch.randn(4, 6))


class Tokens(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.class_token = nn.Parameter(torch.randn(1, 1, 8))
        self.norm = nn.LayerNorm((2, 3))


@pytest.mark.parametrize(
    ("module", "pruned"),
    [
        (nn.Bilinear(2, 3, 4), ["weight"]),
        (nn.GRU(2, 3, num_layers=2, bidirectional=True), 8),
        (nn.LSTM(2, 4, proj_size=3), ["weight_ih_l0", "weight_hh_l0", "weight_hr_l0"]),
        (nn.GRUCell(2, 3), ["weight_ih", "weight_hh"]),
        (
            nn.MultiheadAttention(4, 2, kdim=3, vdim=5, add_bias_kv=True),
            ["q_proj_weight", "k_proj_weight", "v_proj_weight", "out_proj.weight"],
        ),
        (GraniteExperts(), ["gate_up_proj"]),
        (nn.Sequential(Tokens(), nn.Linear(2, 2)), ["1.weight"]),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, nn.Module) else "",
)
def test_the_matrices_of_every_kind_of_layer_are_pruned(module: nn.Module, pruned: Any) -> None:
    names = list(prunable(module))
    assert names == pruned or len(names) == pruned


def test_what_is_frozen_is_not_pruned_unless_it_is_asked_for_by_name() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    model[0].requires_grad_(False)
    assert list(prunable(model)) == ["1.weight"]
    assert list(prunable(model, include="*")) == ["1.weight"]
    assert list(prunable(model, include=nn.Linear)) == ["1.weight"]
    assert list(prunable(model, include=["0", "1"])) == ["0.weight", "1.weight"]
    model.requires_grad_(False)
    with pytest.raises(AsniError, match=r"2 layers such as '0\.weight' are frozen.*requires_grad"):
        prunable(model)


def test_what_is_left_out_is_said_once_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    model = Language()
    model.attention.out_proj.requires_grad_(False)
    optimizer = SGD(model.parameters(), lr=0.1)
    with caplog.at_level("INFO", "asni.pruning"):
        ASNI(model, optimizer, sparsity=0.5, epochs=2, steps_per_epoch=4)
        for _ in range(3):
            optimizer.step()
    assert caplog.messages == [
        "ASNI prunes 132 weights in 3 layers, 51.2 % of 258 parameters; left out: 20 of no known layer (positions), "
        "40 embedding (embedding.weight), 20 frozen (attention.out_proj.weight, attention.out_proj.bias), "
        "46 norm, bias or vector."
    ]


class FullyShardedDataParallel(nn.Module):
    """Has the name of torch's first FSDP, whose parameters are flat."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)


def test_flat_shards_are_refused() -> None:
    with pytest.raises(AsniError, match="fully_shard"):
        prunable(FullyShardedDataParallel())


def test_integers_cannot_be_pruned() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    model[0].weight = nn.Parameter(torch.ones(2, 2, dtype=torch.uint8), requires_grad=False)
    assert list(prunable(model)) == ["1.weight"]
    assert survey(model)[0].left_out == "not floating point"


def test_a_model_that_is_none_is_refused() -> None:
    with pytest.raises(UsageError, match=r"model.*Module.*list"):
        prunable([nn.Linear(2, 2)])  # type: ignore[arg-type]


def test_a_name_stands_for_a_layer_and_a_pattern_for_many() -> None:
    everything = prunable(resnet())
    left = prunable(resnet(), exclude=["conv1", "*.downsample.*"])
    gone = [name for name in everything if name not in left]
    assert gone == ["conv1.weight", *(f"layer{stage}.0.downsample.0.weight" for stage in (2, 3, 4))]


def test_a_name_stands_for_a_module_with_everything_in_it() -> None:
    assert list(prunable(resnet(), include="layer1.0")) == ["layer1.0.conv1.weight", "layer1.0.conv2.weight"]


def test_any_weight_of_two_dimensions_can_be_included() -> None:
    included = prunable(Language(), include=["positions", nn.LSTM, "attention.in_proj_weight"])
    assert list(included) == [
        "positions",
        "attention.in_proj_weight",
        "memory.weight_ih_l0",
        "memory.weight_hh_l0",
    ]


def test_a_type_stands_for_what_a_module_of_it_holds() -> None:
    assert list(prunable(Language(), exclude=nn.MultiheadAttention)) == LSTM


def test_a_function_sees_the_name_and_the_module() -> None:
    def one_by_one(name: str, module: nn.Module) -> bool:
        return isinstance(module, nn.Conv2d) and module.kernel_size == (1, 1)

    shortcuts = [f"layer{stage}.0.downsample.0.weight" for stage in (2, 3, 4)]
    assert list(prunable(resnet(), include=one_by_one)) == shortcuts


@pytest.mark.parametrize("name", ["embedding", "head", "head.weight"])
def test_a_tied_weight_is_excluded_under_any_of_its_names(name: str) -> None:
    everything = ["embedding", "attention"]
    assert list(prunable(Language(), include=everything)) == ["embedding.weight", *ATTENTION]
    assert list(prunable(Language(), include=everything, exclude=name)) == ATTENTION


@pytest.mark.parametrize("where", ["include", "exclude"])
def test_a_name_that_matches_nothing_is_an_error_with_the_nearest_one(where: str) -> None:
    with pytest.raises(UsageError, match=r"'hed'.*'head'"):
        prunable(Language(), **{where: ["embedding", "hed"]})
    with pytest.raises(UsageError, match="Conv3d"):
        prunable(Language(), **{where: nn.Conv3d})


@pytest.mark.parametrize("nothing", ["", 0, [0], [nn.Linear(1, 1)], [None]])
def test_what_selects_nothing_is_refused(nothing: Any) -> None:
    with pytest.raises(UsageError):
        prunable(Language(), exclude=nothing)


def test_a_module_itself_and_an_iterator_select_too() -> None:
    model = Language()
    assert list(prunable(model, exclude=model.attention)) == LSTM
    assert list(prunable(model, exclude=(name for name in ["attention"]))) == LSTM


def test_the_other_matrices_of_a_linear_layer_can_be_included() -> None:
    class Adapted(nn.Linear):
        def __init__(self) -> None:
            super().__init__(3, 3)
            self.low_rank = nn.Parameter(torch.zeros(3, 1))

    model = nn.Sequential(Adapted())
    assert list(prunable(model)) == ["0.weight"]
    assert list(prunable(model, include="*.low_rank")) == ["0.low_rank"]


def test_masks_and_a_selection_that_contradict_each_other_are_refused() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    masks = full_masks(prunable(model))
    with pytest.raises(UsageError, match="masks"):
        Hold(model, SGD(model.parameters(), lr=0.1), masks, exclude="0")
    with pytest.raises(AsniError, match=r"'0\.weight'"):
        amenable(model, masks, exclude="0")


def test_an_excluded_layer_keeps_its_weights_in_the_amenable_initialisation() -> None:
    first, second = nn.Linear(2, 2), nn.Linear(2, 2)
    before = first.weight.detach().clone(), second.weight.detach().clone()
    numbers = amenable(nn.Sequential(first, second), exclude="0")
    assert torch.equal(before[0], first.weight)
    assert not torch.equal(before[1], second.weight)
    assert list(numbers.mask) == ["1.weight"]


def test_nothing_left_is_an_error() -> None:
    with pytest.raises(AsniError, match=r"Language .*include.*exclude"):
        prunable(Language(), include="head", exclude="head")


def test_a_computed_weight_is_refused_unless_it_is_excluded() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.utils.parametrizations.weight_norm(nn.Linear(2, 2)))
    with pytest.raises(AsniError, match=r"'1\.weight'.*parametrisation"):
        prunable(model)
    assert list(prunable(model, exclude="1")) == ["0.weight"]


WITH_SPARSITY = [
    partial(method, sparsity=0.5, epochs=2, steps_per_epoch=1)
    for method in (ASNI, GMP, Magnitude, RigL, SET, Continuous)
]


@pytest.mark.parametrize("method", [*WITH_SPARSITY, partial(STR, decay=1.0), Hold])
def test_every_pruner_takes_the_selection(method: Callable[..., Pruner]) -> None:
    first = nn.Linear(4, 8)
    model = nn.Sequential(first, nn.Linear(8, 8), nn.Linear(8, 2))
    before = first.weight.detach().clone()
    optimizer = SGD(model.parameters(), lr=0.0)
    pruner = method(model, optimizer, exclude="0")
    for _ in range(2):
        model(torch.randn(5, 4)).square().sum().backward()
        optimizer.step()
    assert list(pruner.masks) == ["1.weight", "2.weight"]
    assert torch.equal(first.weight, before)
    if method in WITH_SPARSITY:
        assert sum(int(mask.sum()) for mask in pruner.masks.values()) == 40

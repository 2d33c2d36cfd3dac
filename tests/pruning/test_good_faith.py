"""What users do in good faith ends right, in a warning with names and numbers, or in an error in words."""

import gc
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss
from torch.optim import LBFGS, SGD, Adam

from asni.errors import AsniError, SparsityWarning, UsageError
from asni.methods.amenable import amenable
from asni.methods.asni import ASNI
from asni.methods.continuous import Continuous
from asni.methods.gmp import GMP
from asni.methods.rigl import RigL
from asni.methods.soft_threshold import STR
from asni.pruning.hold import Hold
from asni.pruning.layers import prunable, survey
from asni.pruning.masks import nearly_empty


@pytest.fixture(autouse=True)
def _without_pruners_of_other_tests() -> None:
    gc.collect()


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 20), nn.ReLU(), nn.Linear(20, 4))


def step(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int = 1) -> None:
    for _ in range(steps):
        optimizer.zero_grad()
        mse_loss(model(torch.randn(8, 6)), torch.randn(8, 4)).backward()
        optimizer.step()


def test_another_optimiser_that_trains_the_weights_is_noticed_at_its_first_step() -> None:
    model = network()
    pruner = GMP(model, Adam(model.parameters()), sparsity=0.9, total_steps=10)
    other = Adam(model.parameters())
    with pytest.warns(
        SparsityWarning, match=r"another optimizer \(Adam\) trains '0\.weight' and 1 other layers of GMP"
    ):
        step(model, other)
    step(model, other)
    assert pruner.steps == 0


def test_optimisers_of_other_layers_and_of_the_next_training_are_no_strangers() -> None:
    model = network()
    body, head = SGD(list(model.parameters())[:2], lr=0.1), SGD(list(model.parameters())[2:], lr=0.1)
    pruner = GMP(model, body, sparsity=0.5, total_steps=4)
    for _ in range(4):
        step(model, body)
        step(model, head)
    again = SGD(model.parameters(), lr=0.1)
    Hold(model, again)
    step(model, again)
    assert pruner.steps == 4


class Outer(torch.optim.Optimizer):
    """Steps through an optimiser of its own, as Lookahead does."""

    def __init__(self, parameters: Any) -> None:
        self.inside = SGD(parameters, lr=0.1)
        super().__init__(self.inside.param_groups, {})

    def step(self, closure: Any = None) -> Any:
        return self.inside.step(closure)


def test_an_optimiser_inside_that_of_the_pruner_is_no_stranger() -> None:
    model = network()
    optimizer = Outer(model.parameters())
    pruner = GMP(model, optimizer, sparsity=0.9, total_steps=10)
    step(model, optimizer, 10)
    assert sum(int(weight.count_nonzero()) for weight in pruner.weights.values()) == 20


def test_a_second_pruner_on_the_same_weights_is_refused_until_the_first_is_detached() -> None:
    model = network()
    optimizer = SGD(model.parameters(), lr=0.1)
    first = GMP(model, optimizer, sparsity=0.9, total_steps=10)
    with pytest.raises(UsageError, match=r"'0\.weight' is already pruned by GMP\(step 0/10.*detach"):
        GMP(model, optimizer, sparsity=0.5, total_steps=10)
    first.detach()
    second = GMP(model, optimizer, sparsity=0.5, total_steps=10)
    step(model, optimizer, 10)
    assert second.alive == 100


def test_pruners_of_other_layers_share_an_optimiser() -> None:
    model = network()
    optimizer = SGD(model.parameters(), lr=0.1)
    pruners = [GMP(model, optimizer, sparsity=0.5, total_steps=4, include=name) for name in "02"]
    step(model, optimizer, 4)
    assert [pruner.alive for pruner in pruners] == [60, 40]


@pytest.mark.parametrize("method", [GMP, Continuous])
def test_a_layer_that_is_frozen_later_is_noticed(method: Any) -> None:
    model = network()
    optimizer = SGD(model.parameters(), lr=0.1)
    method(model, optimizer, sparsity=0.5, total_steps=4)
    model[0].requires_grad_(False)
    with pytest.warns(SparsityWarning, match=r"1 layers such as '0\.weight' were frozen after"):
        step(model, optimizer)
    step(model, optimizer)


def test_layers_added_before_the_first_step_are_noticed_too() -> None:
    model = network()
    optimizer = SGD(model[0].parameters(), lr=0.1)
    GMP(model, optimizer, sparsity=0.5, total_steps=4)
    optimizer.add_param_group({"params": list(model[2].parameters())})
    with pytest.warns(SparsityWarning, match=r"now also trains 1 prunable layers such as '2\.weight'"):
        step(model, optimizer)


def test_zeros_that_are_loaded_after_hold_was_made_are_kept() -> None:
    model = network()
    optimizer = SGD(model.parameters(), lr=0.1)
    hold = Hold(model, optimizer)
    sparse = {name: value * (torch.rand(value.shape) < 0.5) for name, value in model.state_dict().items()}
    model.load_state_dict(sparse)
    step(model, optimizer, 3)
    alive = sum(int(sparse[name].count_nonzero()) for name in hold.weights)
    assert hold.alive == sum(int(weight.count_nonzero()) for weight in hold.weights.values()) == alive


def test_hold_of_a_dense_network_is_said(caplog: pytest.LogCaptureFixture) -> None:
    model = network()
    optimizer = SGD(model.parameters(), lr=0.1)
    Hold(model, optimizer)
    with caplog.at_level("INFO", "asni.pruning"):
        step(model, optimizer)
    assert "Hold found no zeros to keep" in caplog.messages[1]


def test_an_average_that_was_copied_into_the_model_is_made_sparse_by_finish() -> None:
    model = network()
    average = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    optimizer = SGD(model.parameters(), lr=0.1)
    pruner = GMP(model, optimizer, sparsity=0.9, total_steps=10)
    step(model, optimizer, 10)
    for name, parameter in model.named_parameters():
        parameter.data.copy_(average[name])
    with pytest.warns(SparsityWarning, match="180 pruned weights of GMP were overwritten"):
        pruner.finish()
    assert sum(int(weight.count_nonzero()) for weight in pruner.weights.values()) == 20


def test_steps_after_finish_are_not_too_many() -> None:
    model = network()
    optimizer = SGD(model.parameters(), lr=0.1)
    pruner = GMP(model, optimizer, sparsity=0.9, total_steps=3)
    step(model, optimizer, 3)
    pruner.finish()
    step(model, optimizer, 3)


class Named(nn.Module):
    """A layer that is really called `module`, beside one of the name that would be left without it."""

    def __init__(self) -> None:
        super().__init__()
        self.module = nn.ModuleDict({"fc": nn.Linear(6, 6)})
        self.fc = nn.Linear(6, 4)

    def forward(self, x: Tensor) -> Any:
        return self.fc(self.module["fc"](x))


def test_a_layer_that_is_really_called_module_is_pruned() -> None:
    model = Named()
    optimizer = SGD(model.parameters(), lr=0.1)
    pruner = GMP(model, optimizer, sparsity=0.5, total_steps=4)
    step(model, optimizer, 4)
    assert list(pruner.masks) == ["module.fc.weight", "fc.weight"]
    pruner.load_state_dict(pruner.state_dict())
    assert pruner.alive == 30
    assert sum(int(weight.count_nonzero()) for weight in pruner.weights.values()) == pruner.target == 30


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.uint8])
def test_a_mask_of_any_kind_of_number_says_which_weights_live(dtype: torch.dtype) -> None:
    model = nn.Linear(300, 300)
    mask = torch.full((300, 300), 255.0).to(dtype)
    mask[7, 8] = 0
    hold = Hold(model, SGD(model.parameters(), lr=0.1), {"weight": mask})
    assert hold.alive == 300 * 300 - 1


@pytest.mark.parametrize("nonsense", [[1, 2], {"weight": [True]}, {"weight": np.ones((3, 3))}])
def test_masks_that_are_none_are_refused(nonsense: Any) -> None:
    model = nn.Linear(3, 3)
    with pytest.raises(UsageError, match="masks are a dict"):
        Hold(model, SGD(model.parameters(), lr=0.1), nonsense)
    with pytest.raises(UsageError, match="masks are a dict"):
        amenable(model, nonsense)


def test_heads_experts_and_transposed_layers_die_in_sight() -> None:
    def one_of(*shape: int) -> Tensor:
        mask = torch.zeros(shape, dtype=torch.bool)
        mask.view(-1)[0] = True
        return mask

    masks = {"head": one_of(10, 50), "experts": one_of(8, 64, 64), "transposed": one_of(4, 90), "tiny": one_of(1, 2)}
    assert list(nearly_empty(masks)) == ["head", "experts", "transposed"]


@pytest.mark.parametrize("end", [STR.finish, STR.detach])
def test_layers_that_learnt_thresholds_have_emptied_are_named(end: Callable[[STR], None]) -> None:
    model = network()
    pruner = STR(model, SGD(model.parameters(), lr=0.1), decay=0.1, start=-0.01)
    assert pruner.alive == 0
    with pytest.warns(SparsityWarning, match=r"almost no signal passes through '0\.weight' \(0 of 120\)"):
        end(pruner)


class VisionMoe(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.pos_embed = nn.Parameter(torch.randn(1, 9, 8))
        self.layer = nn.Linear(8, 8)


class PreNormAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mixing = nn.Parameter(torch.randn(8, 8))


def test_names_do_not_make_a_layer() -> None:
    assert list(prunable(VisionMoe())) == ["layer.weight"]
    assert [each.left_out for each in survey(PreNormAttention())] == ["of no known layer"]


@pytest.mark.filterwarnings("ignore:.*weight_norm.*:FutureWarning")
def test_a_recurrent_weight_that_is_computed_is_refused() -> None:
    layer = nn.utils.weight_norm(nn.LSTM(4, 4), "weight_hh_l0")
    with pytest.raises(AsniError, match=r"'weight_hh_l0' is computed"):
        prunable(layer)


def test_several_backward_passes_in_a_closure_are_no_accumulation() -> None:
    model = network()
    optimizer = LBFGS(model.parameters(), max_iter=4)
    images, targets = torch.randn(8, 6), torch.randn(8, 4)

    def closure() -> float:
        optimizer.zero_grad()
        loss = mse_loss(model(images), targets)
        loss.backward()
        return float(loss.detach())

    GMP(model, optimizer, sparsity=0.5, epochs=2, steps_per_epoch=3)
    for _ in range(6):
        optimizer.step(closure)


def score(name: str, weight: Tensor, power: int) -> Tensor:
    return weight.abs() ** power


def test_numbers_of_numpy_and_partial_scores_resume() -> None:
    def make(sparsity: Any, total_steps: Any) -> GMP:
        model = network()
        optimizer = SGD(model.parameters(), lr=0.1)
        return GMP(model, optimizer, sparsity=sparsity, total_steps=total_steps, score=partial(score, power=2))

    state = make(np.float64(0.9), np.int64(20)).state_dict()
    make(0.9, 20).load_state_dict(state)
    assert {type(value) for value in state["settings"].values()} <= {float, int, str, type(None)}


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"sparsity": "0.9"}, "sparsity must be.*'0.9'"),
        ({"sparsity": None}, "sparsity must be.*None"),
        ({"every": "3"}, "every.* '3'"),
        ({"every": 2.5}, r"every.*2\.5"),
    ],
)
@pytest.mark.parametrize("method", [GMP, RigL])
def test_words_instead_of_numbers_are_refused(method: Any, wrong: dict[str, Any], named: str) -> None:
    model = network()
    with pytest.raises(UsageError, match=named):
        method(model, SGD(model.parameters(), lr=0.1), **{"sparsity": 0.9, "total_steps": 10, **wrong})


@pytest.mark.parametrize("wrong", [lambda *_: 1.0, lambda *_: None, lambda _, weight: weight > 0])
def test_a_score_that_is_no_tensor_of_numbers_is_refused(wrong: Callable[..., Any]) -> None:
    model = network()
    pruner = GMP(model, SGD(model.parameters(), lr=0.1), sparsity=0.9, total_steps=10, score=wrong)
    with pytest.raises(UsageError, match=r"score of '0\.weight' must be a tensor"):
        pruner.finish()


def test_a_frozen_layer_may_be_included_by_name() -> None:
    model = network()
    model[0].requires_grad_(False)
    optimizer = SGD(model.parameters(), lr=0.1)
    pruner = ASNI(model, optimizer, sparsity=0.9, epochs=2, steps_per_epoch=5, include=["0", "2"])
    step(model, optimizer, 10)
    assert pruner.alive == 20


def test_other_mistakes_end_in_words() -> None:
    model = network()
    pruner = ASNI(model, SGD(model.parameters(), lr=0.1), sparsity=0.9, total_steps=10)
    with pytest.raises(UsageError, match=r"apply_to takes a torch\.nn\.Module, not OrderedDict"):
        pruner.apply_to(model.state_dict())  # type: ignore[arg-type]
    incomplete = {key: value for key, value in pruner.state_dict().items() if key != "masks"}
    with pytest.raises(UsageError, match="no masks"):
        pruner.load_state_dict(incomplete)
    with pytest.raises(UsageError, match=r"floor must be.*'0\.1'"):
        GMP(model, Adam(model.parameters()), sparsity=0.9, total_steps=10, floor="0.1")  # type: ignore[arg-type]
    complex_layer = nn.Linear(2, 2, dtype=torch.complex64)
    with pytest.raises(AsniError, match=r"'weight' holds torch\.complex64"):
        prunable(complex_layer, include="weight")


def test_names_without_wrappers_select_layers_of_a_wrapped_model() -> None:
    wrapped = nn.DataParallel(network())
    assert list(prunable(wrapped, include="0")) == ["module.0.weight"]
    assert list(prunable(wrapped, exclude="0.weight")) == ["module.2.weight"]

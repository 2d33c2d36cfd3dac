"""What users do around a pruner: averages and copies, clipping, new parameters, wrapped optimisers."""

import pickle
from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import nn
from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict
from torch.nn.functional import mse_loss
from torch.optim import SGD, Adam
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from asni.errors import AsniError, SparsityWarning, UsageError
from asni.methods.asni import ASNI
from asni.methods.rigl import RigL
from asni.methods.soft_threshold import STR
from asni.pruning.hold import Hold
from asni.pruning.masks import nonzero_masks


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 20), nn.ReLU(), nn.Linear(20, 4))


def step(model: nn.Module, optimizer: Any) -> None:
    optimizer.zero_grad()
    mse_loss(model(torch.randn(8, 6)), torch.randn(8, 4)).backward()
    optimizer.step()


def held() -> tuple[nn.Sequential, torch.optim.Optimizer, Hold]:
    model = network()
    optimizer = SGD(model.parameters(), lr=0.1)
    masks = {name: torch.rand(weight.shape) < 0.2 for name, weight in model.named_parameters() if weight.ndim == 2}
    return model, optimizer, Hold(model, optimizer, masks)


def test_an_average_of_the_weights_gets_the_zeros_of_the_model() -> None:
    model = network()
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
    optimizer = Adam(model.parameters(), lr=0.01)
    pruner = ASNI(model, optimizer, sparsity=0.9, total_steps=10)
    for _ in range(10):
        step(model, optimizer)
        average.update_parameters(model)
    assert sum(int(weight.count_nonzero()) for weight in average.parameters() if weight.ndim == 2) > 100
    pruner.apply_to(average)
    masks = {name.removeprefix("module."): parameter != 0 for name, parameter in average.named_parameters()}
    assert all(torch.equal(masks[name], mask) for name, mask in pruner.masks.items())


def test_another_network_is_no_copy() -> None:
    *_, hold = held()
    with pytest.raises(AsniError, match=r"do not fit.*'0\.weight'"):
        hold.apply_to(nn.Sequential(nn.Linear(6, 21)))


def test_gradients_of_pruned_weights_do_not_count_in_a_norm() -> None:
    model, optimizer, hold = held()
    mse_loss(model(torch.randn(8, 6)), torch.randn(8, 4)).backward()
    masks = hold.masks
    living = [
        parameter.grad.detach().clone() * masks.get(name, torch.tensor(1))
        for name, parameter in model.named_parameters()
        if parameter.grad is not None
    ]
    expected = torch.cat([gradient.flatten() for gradient in living]).norm()
    norm = hold.clip_grad_norm_(0.5 * float(expected))
    torch.testing.assert_close(norm, expected)
    clipped = [parameter.grad for parameter in model.parameters()]
    torch.testing.assert_close(clipped, [gradient * 0.5 for gradient in living])
    optimizer.step()


@pytest.mark.parametrize(("steps", "masked"), [(0, False), (1, True)])
def test_rigl_keeps_the_dense_gradient_where_it_is_about_to_grow(steps: int, masked: bool) -> None:
    model = network()
    optimizer = SGD(model.parameters(), lr=0.1)
    pruner = RigL(model, optimizer, sparsity=0.9, total_steps=100)
    for _ in range(steps):
        step(model, optimizer)
    mse_loss(model(torch.randn(8, 6)), torch.randn(8, 4)).backward()
    pruner.mask_gradients()
    pruned = ~pruner.masks["0.weight"]
    gradient = model.get_parameter("0.weight").grad
    assert gradient is not None
    assert (not gradient[pruned].any()) == masked


def test_str_masks_the_gradients_of_what_is_below_its_threshold() -> None:
    model = network()
    pruner = STR(model, SGD(model.parameters(), lr=0.1), decay=1.0, start=-2.0)
    mse_loss(model(torch.randn(8, 6)), torch.randn(8, 4)).backward()
    pruner.mask_gradients()
    for name, mask in pruner.masks.items():
        gradient = model.get_parameter(name).grad
        assert gradient is not None
        assert mask.any()
        assert not gradient[~mask].any()


def test_a_copied_optimiser_says_that_it_lost_the_masks() -> None:
    model, optimizer, hold = held()
    with pytest.warns(SparsityWarning, match=r"copy of an optimizer does not have the Hold.*asni\.Hold"):
        copied_model, copied = deepcopy((model, optimizer))
    step(copied_model, copied)
    assert type(copied) is SGD
    assert int(copied_model.get_parameter("0.weight").count_nonzero()) > int(hold.masks["0.weight"].sum()), "as it said"
    step(model, optimizer)
    assert all(torch.equal(mask, hold.masks[name]) for name, mask in nonzero_masks(hold.weights).items())


def test_an_unpickled_optimiser_says_that_it_lost_the_masks() -> None:
    _, optimizer, hold = held()
    stored = pickle.dumps(optimizer)
    with pytest.warns(SparsityWarning, match="does not have the Hold"):
        assert pickle.loads(stored).param_groups[0]["lr"] == 0.1
    hold.detach()
    deepcopy(optimizer)


def test_a_copied_model_and_saved_states_say_nothing() -> None:
    model, optimizer, _ = held()
    deepcopy(model)
    deepcopy(optimizer.state_dict())
    pickle.dumps(model)


@pytest.mark.parametrize("unfreeze", [True, False])
def test_layers_that_come_later_are_noticed(unfreeze: bool) -> None:
    model = network()
    if unfreeze:
        model[0].requires_grad_(False)
        optimizer = SGD(model.parameters(), lr=0.1)
    else:
        optimizer = SGD(model[2].parameters(), lr=0.1)
    ASNI(model, optimizer, sparsity=0.5, total_steps=10)
    step(model, optimizer)
    if unfreeze:
        model[0].requires_grad_(True)
    else:
        optimizer.add_param_group({"params": list(model[0].parameters())})
    with pytest.warns(SparsityWarning, match=r"now also trains 1 prunable layers such as '0\.weight' \(120 weights\)"):
        step(model, optimizer)
    step(model, optimizer)


def test_biases_may_come_later() -> None:
    model = network()
    optimizer = SGD([weight for weight in model.parameters() if weight.ndim == 2], lr=0.1)
    ASNI(model, optimizer, sparsity=0.5, total_steps=10)
    step(model, optimizer)
    optimizer.add_param_group({"params": [model[0].bias]})
    step(model, optimizer)


@pytest.mark.parametrize("lr", [0.1, 0.0])
def test_a_step_that_only_makes_the_state_of_the_optimiser_does_not_count(lr: float) -> None:
    model = network()
    optimizer = Adam(model.parameters(), lr=lr)
    pruner = ASNI(model, optimizer, sparsity=0.9, total_steps=10)
    get_optimizer_state_dict(model, optimizer)
    assert optimizer.state
    assert pruner.steps == 0
    step(model, optimizer)
    assert pruner.steps == 1, "a warm-up may begin at a learning rate of 0"


class Wrapper(torch.optim.Optimizer):
    """As accelerate's: a torch optimiser by class, but without the attributes of one."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self.optimizer = optimizer

    def zero_grad(self, set_to_none: bool = True) -> None:
        self.optimizer.zero_grad(set_to_none)

    def step(self, closure: Any = None) -> Any:
        return self.optimizer.step(closure)


@pytest.mark.parametrize("method", [ASNI, RigL])
def test_a_wrapped_optimiser_is_unwrapped(method: Any) -> None:
    model = network()
    optimizer = Wrapper(SGD(model.parameters(), lr=0.1))
    pruner = method(model, optimizer, sparsity=0.9, total_steps=10)
    for _ in range(10):
        step(model, optimizer)
    assert (pruner.steps, pruner.alive) == (10, 20)


@pytest.mark.parametrize("nonsense", [None, [], nn.Linear(2, 2), "adam"])
def test_what_is_no_optimiser_is_refused(nonsense: Any) -> None:
    with pytest.raises(UsageError, match="optimizer must be an optimizer of torch, not"):
        ASNI(network(), nonsense, sparsity=0.9, total_steps=10)


class Words(nn.Module):
    """An embedding as torch initialises it, and layers as a transformer does."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words, self.block, self.head = nn.Embedding(100, 32), nn.Linear(32, 32), nn.Linear(32, 32)
        for layer in (self.block, self.head):
            nn.init.normal_(layer.weight, std=0.02)


def test_the_threshold_that_empties_layers_of_another_scale_is_noticed_at_the_start() -> None:
    model = Words()
    optimizer = SGD(model.parameters(), lr=0.1)
    ASNI(model, optimizer, sparsity=0.9, total_steps=10, include=["words", "block", "head"])
    expected = (
        r"2 of 3 layers nearly empty, such as 'block.weight' \(0 of 1,024.*'words.weight' keeps 100%.*lamp.*floor"
    )
    with pytest.warns(SparsityWarning, match=expected):
        optimizer.step()


@pytest.mark.filterwarnings("error")
def test_an_embedding_tied_to_the_head_does_not_empty_the_other_layers() -> None:
    model = Words()
    model.head = nn.Linear(32, 100, bias=False)
    model.head.weight = model.words.weight
    optimizer = SGD(model.parameters(), lr=0.1)
    pruner = ASNI(model, optimizer, sparsity=0.9, total_steps=50)
    for _ in range(50):
        optimizer.step()
    assert list(pruner.masks) == ["block.weight"]
    assert pruner.alive == int(model.block.weight.count_nonzero()) == 102
    assert bool(model.words.weight.all())


def test_a_step_that_a_gradient_scaler_skips_does_not_cost_the_target() -> None:
    model = network()
    optimizer = SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
    pruner = ASNI(model, optimizer, sparsity=0.9, epochs=1, steps_per_epoch=10)
    for number in range(10):
        optimizer.zero_grad()
        loss = mse_loss(model(torch.randn(8, 6)), torch.randn(8, 4))
        scaler.scale(loss * (float("inf") if number == 3 else 1.0)).backward()
        scaler.step(optimizer)
        scaler.update()
    assert (pruner.steps, pruner.alive) == (9, 20)


@pytest.mark.parametrize("remedy", [{"score": "lamp"}, {"floor": 0.01}, {"exclude": "words"}])
@pytest.mark.filterwarnings("error")
def test_the_remedies_that_a_warning_names_help(remedy: dict[str, Any]) -> None:
    model = Words()
    optimizer = SGD(model.parameters(), lr=0.1)
    ASNI(model, optimizer, sparsity=0.9, total_steps=50, include=["words", "block", "head"], **remedy)
    for _ in range(50):
        optimizer.step()


def test_zeros_of_a_layer_that_is_not_held_are_noticed() -> None:
    model = Words()
    model.words.weight.data.mul_(torch.rand(100, 32) < 0.5)
    optimizer = SGD(model.parameters(), lr=0.1)
    Hold(model, optimizer)
    with pytest.warns(SparsityWarning, match=r"% of 'words.weight' is zero, but Hold does not hold it \(embedding\)"):
        optimizer.step()

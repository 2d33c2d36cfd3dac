"""STR: the threshold, the decay that drives it, and the search for a wanted number of weights."""

import json
import math
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path

import pytest
import torch
from torch import nn

from asni import recipes
from asni.errors import UsageError
from asni.methods import METHODS
from asni.methods.soft_threshold import SLOWEST, STR, decay_for
from asni.training.optimizers import make_optimizer
from tests.methods.small_recipe import OPTIMIZERS as SMALL
from tests.methods.small_recipe import small_recipe
from tests.training.training_by_hand import OPTIMIZERS, alive, small_network, train
from tests.training.training_setup import trainer


def test_weights_within_the_threshold_are_zero_and_the_others_nearer_to_it() -> None:
    layer = nn.Linear(4, 1)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[0.5, -0.5, 0.25, -0.125]]))
    pruner = STR(layer, torch.optim.SGD(layer.parameters()), decay=0.0, start=-math.log(3))
    torch.testing.assert_close(layer.weight.detach(), torch.tensor([[0.25, -0.25, 0.0, 0.0]]))
    assert pruner.masks["weight"].tolist() == [[True, True, False, False]]


def step_without_a_loss(layer: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    for parameter in layer.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()


DECAYING: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "sgd": torch.optim.SGD,
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
}


@pytest.mark.parametrize("optimizer_name", DECAYING)
def test_the_weights_and_s_decay_once_whatever_the_weight_decay_of_the_optimiser(optimizer_name: str) -> None:
    layer = nn.Linear(3, 3)
    unpruned = deepcopy(layer)
    weight = layer.weight.detach().clone()
    optimizer, other = (
        DECAYING[optimizer_name](each.parameters(), lr=0.1, weight_decay=0.8) for each in (layer, unpruned)
    )
    pruner = STR(layer, optimizer, decay=0.5, start=-8.0)
    step_without_a_loss(layer, optimizer)
    step_without_a_loss(unpruned, other)
    left = 1 - 0.1 * 0.5 if optimizer_name == "sgd" else math.exp(-0.1 * 0.5)
    torch.testing.assert_close(pruner.latent["weight"], left * weight)
    assert pruner.scores["weight"].item() == pytest.approx(left * -8)
    assert torch.equal(layer.bias, unpruned.bias), "the biases keep the weight decay of the optimiser"


@pytest.mark.parametrize("optimizer_name", DECAYING)
def test_s_can_have_a_decay_of_its_own(optimizer_name: str) -> None:
    layer = nn.Linear(3, 3)
    weight = layer.weight.detach().clone()
    optimizer = DECAYING[optimizer_name](layer.parameters(), lr=0.1)
    pruner = STR(layer, optimizer, decay=0.5, threshold_decay=2.0, start=-8.0)
    step_without_a_loss(layer, optimizer)
    weights_left, s_left = (0.95, 0.8) if optimizer_name == "sgd" else (math.exp(-0.05), math.exp(-0.2))
    torch.testing.assert_close(pruner.latent["weight"], weights_left * weight)
    assert pruner.scores["weight"].item() == pytest.approx(s_left * -8)


@pytest.mark.parametrize(("optimizer_name", "left"), [("sgd", 1 - 0.1 * 4), ("adam", math.exp(-0.1 * 1))])
def test_the_weights_decay_no_faster_than_adam_can_hold_them(optimizer_name: str, left: float) -> None:
    layer = nn.Linear(3, 3)
    before = layer.weight.detach().clone()
    optimizer = DECAYING[optimizer_name](layer.parameters(), lr=0.1)
    pruner = STR(layer, optimizer, decay=4.0)
    step_without_a_loss(layer, optimizer)
    torch.testing.assert_close(pruner.latent["weight"], left * before)


@pytest.mark.parametrize("optimizer_name", OPTIMIZERS)
def test_more_decay_leaves_fewer_weights(optimizer_name: str) -> None:
    counts = []
    for times_e in (0.0, 0.8, 1.2):
        model = small_network()
        optimizer = OPTIMIZERS[optimizer_name](model.parameters())
        (group,) = optimizer.param_groups
        lr = group["lr"] / (1 - group.get("momentum", 0.0))
        STR(model, optimizer, decay=times_e / (40 * lr), start=-8.0)
        train(model, optimizer, range(40))
        counts.append(alive(model))
    assert counts[0] > counts[1] > counts[2] > 0


@pytest.mark.parametrize("optimizer_name", SMALL)
@pytest.mark.parametrize("nesterov", [False, True])
def test_the_slowest_decay_takes_s_to_minus_8_in_the_training_without_a_loss(
    optimizer_name: str, nesterov: bool, tmp_path: Path
) -> None:
    recipe = small_recipe(optimizer=optimizer_name)
    training = recipe.training.model_copy(update={"nesterov": nesterov and optimizer_name == "sgd"})
    setup = trainer(tmp_path, recipe.model_copy(update={"training": training}))
    layer = nn.Linear(3, 3).double()
    optimizer = make_optimizer(layer, setup.recipe)
    pruner = STR(layer, optimizer, decay=decay_for(setup, SLOWEST))
    for epoch in range(training.epochs):
        for group in optimizer.param_groups:
            group["lr"] = recipes.lr_at(training, epoch)
        for _ in range(setup.steps_per_epoch):
            step_without_a_loss(layer, optimizer)
    assert pruner.scores["weight"].item() == pytest.approx(-8)


def test_the_search_reaches_the_wanted_count_and_is_not_repeated(tmp_path: Path) -> None:
    recipe = recipes.load("digits-fc").override(epochs=2, steps_per_epoch=8, sparsity=0.8)
    training = trainer(tmp_path, recipe)
    run = METHODS["str"].train(training)
    alive_weights = sum(int(mask.sum()) for mask in run.masks.values())
    assert alive_weights == pytest.approx(10_040, rel=0.02)
    search = json.loads((run.directory / "search.json").read_text())
    assert search["wanted"] == 10_040
    assert search["trainings"][-1]["weights"] == alive_weights
    assert sorted(path.name for path in training.experiment.home.iterdir()) == [
        "str",
        *(f"str-search-{number + 1}" for number in range(len(search["trainings"]))),
    ]
    assert all(bool((run.weights[name][~mask] == 0).all()) for name, mask in run.masks.items())
    assert len(training.rounds) == len(search["trainings"])
    last = training.experiment.run(f"str-search-{len(training.rounds)}", method="str")
    assert run.finished
    assert run.result["rounds"] == [*(f"str-search-{number + 1}" for number in range(len(training.rounds) - 1)), "str"]
    assert {**run.result, "stage": last.request["stage"], "rounds": last.result["rounds"]} == last.result
    assert all(torch.equal(value, last.weights[name]) for name, value in run.weights.items())
    before = (run.directory / "result.json").stat().st_mtime_ns
    assert (METHODS["str"].train(trainer(tmp_path, recipe)).directory / "result.json").stat().st_mtime_ns == before


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("decay", -1.0),
        ("decay", math.nan),
        ("threshold_decay", -1.0),
        ("threshold_decay", math.inf),
        ("start", 0.0),
        ("start", -math.inf),
    ],
)
def test_nonsense_is_refused(setting: str, value: float) -> None:
    model = small_network()
    settings = {"decay": 1.0, setting: value}
    with pytest.raises(UsageError, match=f"^{setting}.*{value}"):
        STR(model, OPTIMIZERS["sgd"](model.parameters()), **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("optimizer_name", DECAYING)
def test_each_layer_decays_at_the_rate_of_its_own_parameter_group(optimizer_name: str) -> None:
    layers = [nn.Linear(2, 1, bias=False), nn.Linear(2, 1, bias=False)]
    for layer in layers:
        nn.init.constant_(layer.weight, 1.0)
    groups = [{"params": layer.parameters(), "lr": lr} for layer, lr in zip(layers, (0.1, 0.01), strict=True)]
    model, optimizer = nn.Sequential(*layers), DECAYING[optimizer_name](groups)
    pruner = STR(model, optimizer, decay=0.5)
    step_without_a_loss(model, optimizer)
    assert pruner.latent["0.weight"][0, 0].item() == pytest.approx(1 - 0.1 * 0.5, abs=2e-3)
    assert pruner.latent["1.weight"][0, 0].item() == pytest.approx(1 - 0.01 * 0.5, abs=2e-5)


@pytest.mark.parametrize("optimizer_name", DECAYING)
def test_a_layer_without_a_gradient_does_not_decay(optimizer_name: str) -> None:
    layer = nn.Linear(2, 1, bias=False)
    optimizer = DECAYING[optimizer_name](layer.parameters(), lr=0.1)
    pruner = STR(layer, optimizer, decay=0.5)
    before = pruner.latent["weight"].clone()
    optimizer.step()
    assert torch.equal(pruner.latent["weight"], before)
    assert float(pruner.scores["weight"].detach()) == -3200


def test_a_step_that_a_gradient_scaler_skips_does_not_decay() -> None:
    layer = nn.Linear(2, 1, bias=False)
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.1)
    pruner = STR(layer, optimizer, decay=0.5)
    layer.weight.grad = torch.zeros_like(layer.weight)
    optimizer.found_inf = torch.ones(())  # type: ignore[attr-defined]
    with torch.no_grad():
        pruner.before_step()
    assert float(pruner.scores["weight"].detach()) == -3200

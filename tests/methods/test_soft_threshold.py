"""STR: the threshold, the decay that drives it, and the search for a wanted number of weights."""

import json
import math
from pathlib import Path

import pytest
import torch
from torch import nn

from asni import recipes
from asni.errors import UsageError
from asni.methods import METHODS
from asni.methods.soft_threshold import STR
from tests.training.training_by_hand import OPTIMIZERS, alive, small_network, train
from tests.training.training_setup import trainer


def test_weights_within_the_threshold_are_zero_and_the_others_nearer_to_it() -> None:
    layer = nn.Linear(4, 1)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[0.5, -0.5, 0.25, -0.125]]))
    pruner = STR(layer, torch.optim.SGD(layer.parameters()), decay=0.0, start=-math.log(3))
    torch.testing.assert_close(layer.weight.detach(), torch.tensor([[0.25, -0.25, 0.0, 0.0]]))
    assert pruner.masks["weight"].tolist() == [[True, True, False, False]]


@pytest.mark.parametrize("optimizer_name", OPTIMIZERS)
def test_without_a_loss_s_decays_exponentially_under_any_optimiser(optimizer_name: str) -> None:
    layer = nn.Linear(3, 3)
    optimizer = OPTIMIZERS[optimizer_name](layer.parameters())
    pruner = STR(layer, optimizer, decay=4.0, start=-8.0)
    for _ in range(10):
        optimizer.step()
    assert pruner.scores["weight"].item() == pytest.approx(-8 * math.exp(-10 * 4 * optimizer.param_groups[0]["lr"]))


@pytest.mark.parametrize(("decay", "felt"), [(0.5, 0.5), (4.0, 1.0)])
def test_without_a_loss_the_weights_behind_decay_alike_but_never_faster_than_adam_can_hold_them(
    decay: float, felt: float
) -> None:
    layer = nn.Linear(3, 3)
    before = layer.weight.detach().clone()
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    pruner = STR(layer, optimizer, decay=decay)
    for _ in range(10):
        optimizer.step()
    torch.testing.assert_close(pruner.latent["weight"], before * math.exp(-10 * 0.1 * felt))


@pytest.mark.parametrize("optimizer_name", OPTIMIZERS)
def test_more_decay_leaves_fewer_weights(optimizer_name: str) -> None:
    counts = []
    for times_e in (0.0, 0.8, 1.2):
        model = small_network()
        optimizer = OPTIMIZERS[optimizer_name](model.parameters())
        STR(model, optimizer, decay=times_e / (40 * optimizer.param_groups[0]["lr"]), start=-8.0)
        train(model, optimizer, range(40))
        counts.append(alive(model))
    assert counts[0] > counts[1] > counts[2] > 0


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
    (run.directory / "search.json").unlink()
    assert (METHODS["str"].train(trainer(tmp_path, recipe)).directory / "result.json").stat().st_mtime_ns == before
    assert not (run.directory / "search.json").exists(), "a finished run is not written again"


@pytest.mark.parametrize(("decay", "start"), [(-1.0, -8.0), (math.nan, -8.0), (1.0, 0.0), (1.0, -math.inf)])
def test_nonsense_is_refused(decay: float, start: float) -> None:
    model = small_network()
    with pytest.raises(UsageError, match=f"decay.*{decay}" if start == -8.0 else f"start.*{start}"):
        STR(model, OPTIMIZERS["sgd"](model.parameters()), decay=decay, start=start)

"""What every method promises, whichever it is: a method is covered by being registered."""

from collections.abc import Mapping
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from torch import Tensor, nn

from asni.errors import AsniError, StoppedError, UsageError
from asni.methods import METHODS
from asni.pruning.layers import prunable
from asni.pruning.masks import count
from asni.recipes import Recipe
from asni.runs.run import Run
from asni.training.progress import Progress
from asni.training.round import MakePruner
from asni.training.trainer import Trainer
from tests.methods.small_recipe import NEEDS, OPTIMIZERS, small_recipe
from tests.training.training_setup import StopAfter
from tests.training.training_setup import trainer as small_trainer

SPARSE = [method for method in METHODS if method != "dense"]
WITHIN = {"str": 0.02}
"""Methods without a sparsity target, and how near to it they promise to end, as a share of the count."""

MAY_COME_BACK = {"str"}
"""Methods whose pruned weights keep learning behind their zeros, so the optimiser must not forget them."""


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("method", SPARSE)
def test_ends_with_the_asked_weights_alive_and_the_others_zero(method: str, optimizer: str, shared: Path) -> None:
    trainer = small_trainer(shared / optimizer, recipe_for(method, optimizer=optimizer))
    run = METHODS[method].train(trainer)
    assert count(run.masks) == pytest.approx(trainer.keep, rel=WITHIN.get(method, 0), abs=0)
    assert_zero_outside(run.masks, run.weights)
    biases_and_norms = sum(p.numel() for p in trainer.network().parameters()) - sum(
        map(torch.numel, run.masks.values())
    )
    assert run.result["nonzeros"] == count(run.masks) + biases_and_norms


@pytest.mark.parametrize("method", METHODS)
def test_leaves_the_network_with_the_keys_and_shapes_it_had(method: str, shared: Path) -> None:
    trainer = small_trainer(shared / "adam", recipe_for(method))
    given = {name: value.shape for name, value in trainer.network().state_dict().items()}
    assert {name: value.shape for name, value in METHODS[method].train(trainer).weights.items()} == given


@pytest.mark.parametrize("method", SPARSE)
def test_works_where_a_layer_is_emptied(method: str, shared: Path) -> None:
    trainer = small_trainer(shared / "fading", recipe_for(method, "fading"))
    run = METHODS[method].train(trainer)
    assert count(run.masks) == pytest.approx(trainer.keep, rel=WITHIN.get(method, 0), abs=0)
    assert all(bool(value.isfinite().all()) for value in run.weights.values())


@pytest.mark.parametrize("method", SPARSE)
def test_a_layer_that_the_recipe_excludes_stays_dense(method: str, shared: Path) -> None:
    recipe = recipe_for(method, exclude=["5"])
    trainer = small_trainer(shared / "excluded", recipe)
    run = METHODS[method].train(trainer)
    assert trainer.keep == round(0.4 * 64 * 12)
    assert int(run.masks["1.weight"].sum()) == pytest.approx(trainer.keep, rel=WITHIN.get(method, 0), abs=0)
    assert run.weights["5.weight"].all()
    others = 12 * 10 + 12 + 2 * 12 + 10
    assert run.result["nonzeros"] == int(run.masks["1.weight"].sum()) + others
    assert run.result["sparsity"] == pytest.approx(0.6, abs=0.01)


@pytest.mark.parametrize("method", ["asni-1", "asni-2", "original", "control-signs", "control-mask", "lottery"])
def test_a_layer_that_cannot_be_pruned_can_be_excluded(method: str, shared: Path) -> None:
    recipe = recipe_for(method, "normalised_front", exclude=["1", "2"])
    run = METHODS[method].train(small_trainer(shared / "front", recipe))
    assert list(run.masks) == ["3.weight", "5.weight"]
    assert run.result["sparsity"] == pytest.approx(0.6, abs=0.01)
    assert torch.equal(run.weights["2.weight"], torch.eye(12)), "a frozen layer stays what it was"


@pytest.mark.parametrize("method", METHODS)
def test_a_score_and_a_floor_are_used_or_refused(method: str, shared: Path) -> None:
    recipe = recipe_for(method, "fading", score="lamp", floor=3)
    trainer = small_trainer(shared / "ranked", recipe)
    if not METHODS[method].accepts_score:
        with pytest.raises(UsageError, match=f"^{method} .*score.*floor"):
            METHODS[method].train(trainer)
    elif method != "dense":
        masks = METHODS[method].train(trainer).masks
        assert count(masks) == trainer.keep
        assert int(masks["3.weight"].sum()) >= 3, "a global threshold on magnitudes would empty this layer"


def test_that_layer_is_emptied_by_a_global_threshold(shared: Path) -> None:
    run = METHODS["magnitude-retrain"].train(small_trainer(shared / "fading", small_recipe("fading")))
    assert not run.masks["3.weight"].any()


def test_a_nearly_empty_layer_is_reported_by_name(tmp_path: Path) -> None:
    said = StringIO()
    METHODS["asni-1"].train(small_trainer(tmp_path, small_recipe("fading"), progress=Progress(Console(file=said))))
    assert said.getvalue().count("asni-1: almost no signal passes through '3.weight' (0 of 96): ") == 1
    assert said.getvalue().count("almost no signal") == 1


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("method", SPARSE)
def test_pruned_weights_and_their_state_are_zero_after_every_step(method: str, optimizer: str, tmp_path: Path) -> None:
    trainer = small_trainer(tmp_path, recipe_for(method, optimizer=optimizer))
    watched = Watched(trainer, state=method not in MAY_COME_BACK)
    METHODS[method].train(watched)  # type: ignore[arg-type]
    assert watched.looked > 0
    assert watched.moments > 0 or not watched.state


@pytest.mark.parametrize("method", METHODS)
def test_stopped_again_and_again_it_ends_with_the_weights_of_an_undisturbed_training(
    method: str, shared: Path, tmp_path: Path
) -> None:
    undisturbed = METHODS[method].train(small_trainer(shared / "adam", recipe_for(method)))
    while (run := trained_until_stopped(method, tmp_path, steps=5)) is None:
        pass
    assert_same(run.weights, undisturbed.weights)
    if method != "dense":
        assert_same(run.masks, undisturbed.masks)
    assert without_times(run.result) == without_times(undisturbed.result)


@pytest.mark.parametrize("method", METHODS)
def test_another_seed_gives_another_network(method: str, shared: Path) -> None:
    one, other = (
        METHODS[method].train(small_trainer(shared / folder, recipe_for(method), seed=seed))
        for seed, folder in enumerate(["adam", "another-seed"])
    )
    assert not torch.equal(one.weights["1.weight"], other.weights["1.weight"])


@pytest.mark.parametrize("method", METHODS)
def test_refuses_weights_that_are_not_numbers(method: str, tmp_path: Path) -> None:
    with pytest.raises(AsniError, match=r"'1\.weight'|loss.* nan"):
        METHODS[method].train(small_trainer(tmp_path, recipe_for(method, "broken")))


def recipe_for(method: str, network: str = "normed", optimizer: str = "adam", **pruning: Any) -> Recipe:
    return small_recipe(network, optimizer, **NEEDS.get(method, {}), **pruning)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where rounds that several methods have in common are trained once, as they are for a user."""
    return tmp_path_factory.mktemp("shared")


class Watched:
    """A trainer that looks at every pruned weight, and at its optimiser state, after every step."""

    def __init__(self, trainer: Trainer, *, state: bool):
        self.trainer, self.state = trainer, state
        self.looked = self.moments = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.trainer, name)

    def train(self, stage: str, make_pruner: MakePruner, **options: Any) -> Run:
        def watched(model: nn.Module, optimizer: torch.optim.Optimizer) -> Any:
            pruner = make_pruner(model, optimizer)
            if pruner is not None:
                optimizer.register_step_post_hook(lambda *_: self.look(pruner.masks, model, optimizer))
            return pruner

        return self.trainer.train(stage, watched, **options)

    def look(self, masks: Mapping[str, Tensor], model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        self.looked += 1
        weights = prunable(model)
        assert_zero_outside(masks, weights)
        for name, weight in weights.items() if self.state else ():
            moments = [value for value in optimizer.state[weight].values() if value.shape == weight.shape]
            # None yet where RigL's update at step 0 replaced the optimiser's first step.
            self.moments += len(moments)
            for value in moments:
                assert_zero_outside({name: masks[name]}, {name: value})


def trained_until_stopped(method: str, directory: Path, steps: int) -> Run | None:
    try:
        return METHODS[method].train(small_trainer(directory, recipe_for(method), progress=StopAfter(steps)))
    except StoppedError:
        return None


def assert_zero_outside(masks: Mapping[str, Tensor], values: Mapping[str, Tensor]) -> None:
    for name, lives in masks.items():
        assert not values[name][~lives].any(), name


def assert_same(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> None:
    assert one.keys() == other.keys()
    for name, value in one.items():
        assert torch.equal(value, other[name]), name


def without_times(result: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in result.items() if key != "seconds"}

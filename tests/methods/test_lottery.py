"""The lottery ticket algorithm, its stabilised form, and the trainings with a single pruning."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from asni.errors import UsageError
from asni.methods.dense import dense, dense_until
from asni.methods.lottery import counts, layer_by_layer, lottery, lottery_layerwise, lottery_rewind
from asni.methods.retraining import magnitude_retrain, magnitude_rewind
from asni.pruning.masks import count, keep_largest
from asni.runs.run import Run
from asni.training.trainer import Trainer
from tests.methods.small_recipe import small_recipe
from tests.training.training_setup import trainer as small_trainer


@pytest.fixture
def trainer(tmp_path: Path) -> Trainer:
    return small_trainer(tmp_path, small_recipe())


def test_every_round_starts_from_the_original_values_bit_for_bit(trainer: Trainer) -> None:
    lottery(trainer)
    original = trainer.network().state_dict()
    assert len(trainer.rounds) == 6
    for run in trainer.rounds.values():
        assert all(torch.equal(value, original[name]) for name, value in run.initial.items())


def test_every_round_prunes_the_smallest_of_the_weights_that_lived(trainer: Trainer) -> None:
    lottery(trainer)
    first, *rounds = trainer.rounds.values()
    within = None
    for before, after in zip([first, *rounds], rounds, strict=False):
        magnitudes = {name: before.weights[name] for name in after.masks}
        assert_same_masks(after, keep_largest(magnitudes, count(after.masks), within=within))
        within = after.masks


def test_the_first_round_is_the_dense_training(trainer: Trainer) -> None:
    lottery(trainer)
    assert list(trainer.rounds) == ["dense", *(f"lottery-round-{number}" for number in (2, 3, 4, 5)), "lottery"]


def test_step_k_of_the_first_round_is_where_stabilised_rounds_start(tmp_path: Path) -> None:
    k = 5
    trainer = small_trainer(tmp_path, small_recipe().override(lottery_rewind=k))
    lottery_rewind(trainer)
    assert_same_values(trainer.rounds[f"dense-until-{k}"].initial, trainer.network().state_dict())
    at_k = trainer.rounds[f"dense-until-{k}"].weights
    assert int(at_k["2.num_batches_tracked"]) == k
    rounds = [run for stage, run in trainer.rounds.items() if stage.startswith("lottery-rewind")]
    assert len(rounds) == 5
    for run in rounds:
        assert_same_values(run.initial, at_k)
        assert run.result["steps"] == 12 - k


def test_the_dense_training_continues_from_step_k_as_if_uninterrupted(tmp_path: Path) -> None:
    """With plain gradient descent, which keeps nothing but the weights from step to step."""
    recipe = small_recipe("fading", "sgd")
    recipe = recipe.model_copy(update={"training": recipe.training.model_copy(update={"momentum": 0.0})})
    trainer = small_trainer(tmp_path, recipe)
    at_k = dense_until(trainer, 5).weights
    rest = trainer.train("rest", lambda model, optimizer: None, start=at_k, steps=trainer.steps[5:])
    assert_same_values(rest.weights, dense(trainer).weights)


def test_magnitude_rewind_is_the_mask_of_the_trained_network_on_the_values_of_step_k(tmp_path: Path) -> None:
    trainer = small_trainer(tmp_path, small_recipe().override(lottery_rewind=3))
    run = magnitude_rewind(trainer)
    assert_same_masks(run, mask_of_the_dense(trainer))
    assert_same_values(run.initial, dense_until(trainer, 3).weights)
    assert run.result["steps"] == 9


def test_magnitude_retrain_starts_from_the_trained_weights_for_a_full_training(trainer: Trainer) -> None:
    run = magnitude_retrain(trainer)
    assert_same_masks(run, mask_of_the_dense(trainer))
    assert_same_values(run.initial, dense(trainer).weights)
    assert run.result["steps"] == 12


def test_there_must_be_training_left_after_step_k(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="step 12 of 12"):
        magnitude_rewind(small_trainer(tmp_path, small_recipe().override(lottery_rewind=12)))


def test_the_output_layer_is_pruned_at_half_the_rate_of_the_others(trainer: Trainer) -> None:
    lottery_layerwise(trainer)
    lived = {"1.weight": 768, "5.weight": 120}
    for run in list(trainer.rounds.values())[1:]:
        lives = {name: int(mask.sum()) for name, mask in run.masks.items()}
        gone = {name: 1 - lives[name] / lived[name] for name in lives}
        assert 0.1 < gone["1.weight"] < 0.21
        assert gone["5.weight"] == pytest.approx(gone["1.weight"] / 2, abs=1.5 / lived["5.weight"])
        lived = lives


def test_layer_by_layer_keeps_the_largest_of_each_layer_and_revives_nothing() -> None:
    weights = {"first": torch.tensor([9.0, 1.0, 0.0, -8.0]), "last": torch.tensor([0.1, -0.4, 0.3, 0.2])}
    within = {"first": torch.tensor([False, True, True, True]), "last": torch.ones(4, dtype=torch.bool)}
    masks = layer_by_layer(weights, 5, within)
    assert masks["first"].tolist() == [False, True, False, True]
    assert masks["last"].tolist() == [False, True, True, True]


@given(total=st.integers(1, 10**8), share=st.floats(1e-4, 1), rate=st.floats(0.05, 0.9))
def test_rounds_prune_the_same_percentage_and_end_exactly(total: int, share: float, rate: float) -> None:
    keep = max(1, round(share * total))
    alive = counts(total, keep, rate)
    assert alive[-1] == keep
    for before, after in zip([total, *alive], alive, strict=False):
        assert after <= before
        assert after >= (1 - rate) * before * (1 - 1e-6) - 1
    fewest = math.ceil(math.log(keep / total) / math.log(1 - rate) - 1e-6)
    assert len(alive) in (max(1, fewest), fewest + 1)


@pytest.mark.parametrize(
    ("change", "alive"),
    [({"lottery_rate": 0.5}, [561, 355]), ({"lottery_rounds": 1}, [355]), ({"lottery_rounds": 3}, [654, 482, 355])],
)
def test_a_recipe_sets_the_rate_or_the_rounds(change: dict[str, Any], alive: list[int], tmp_path: Path) -> None:
    trainer = small_trainer(tmp_path, small_recipe().override(**change))
    lottery(trainer)
    assert [count(run.masks) for stage, run in trainer.rounds.items() if stage != "dense"] == alive


def mask_of_the_dense(trainer: Trainer) -> dict[str, torch.Tensor]:
    weights = dense(trainer).weights
    return keep_largest({name: weights[name] for name in ("1.weight", "5.weight")}, trainer.keep)


def assert_same_masks(run: Run, masks: dict[str, torch.Tensor]) -> None:
    assert run.masks.keys() == masks.keys()
    assert all(torch.equal(mask, masks[name]) for name, mask in run.masks.items())


def assert_same_values(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> None:
    assert one.keys() == other.keys()
    assert all(torch.equal(value, other[name]) for name, value in one.items())

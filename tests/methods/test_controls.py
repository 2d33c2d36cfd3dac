"""ASNI-II's controls randomise one thing each."""

from pathlib import Path

import pytest
import torch

from asni.methods.amenable import asni_2, original
from asni.methods.asni import asni_1
from asni.methods.controls import control_fresh, control_mask, control_signs
from asni.training.trainer import Trainer
from tests.methods.small_recipe import small_recipe
from tests.training.training_setup import trainer as small_trainer

LAYERS = ("1.weight", "5.weight")


@pytest.fixture
def trainer(tmp_path: Path) -> Trainer:
    return small_trainer(tmp_path, small_recipe())


def test_fresh_values_under_the_same_mask(trainer: Trainer) -> None:
    run, sparse = control_fresh(trainer), asni_1(trainer)
    for layer in LAYERS:
        assert torch.equal(run.masks[layer], sparse.masks[layer])
        assert not (run.initial[layer] == sparse.initial[layer]).any()


def test_the_original_values_under_the_same_mask(trainer: Trainer) -> None:
    run, sparse = original(trainer), asni_1(trainer)
    for layer in LAYERS:
        assert torch.equal(run.masks[layer], sparse.masks[layer])
        assert torch.equal(run.initial[layer], sparse.initial[layer])


def test_signs_change_places_within_the_mask_of_their_layer(trainer: Trainer) -> None:
    run, amenable = control_signs(trainer), asni_2(trainer)
    for layer in LAYERS:
        assert torch.equal(run.masks[layer], amenable.masks[layer])
        ours, theirs = run.initial[layer], amenable.initial[layer]
        assert not torch.equal(ours, theirs)
        assert torch.equal(ours != 0, theirs != 0)
        assert torch.equal(ours.flatten().sort().values, theirs.flatten().sort().values)


def test_the_mask_of_each_layer_changes_places_and_its_centroids_with_it(trainer: Trainer) -> None:
    run, amenable = control_mask(trainer), asni_2(trainer)
    for layer in LAYERS:
        assert not torch.equal(run.masks[layer], amenable.masks[layer])
        assert torch.equal(run.initial[layer] != 0, run.masks[layer])
        assert torch.equal(run.initial[layer].flatten().sort().values, amenable.initial[layer].flatten().sort().values)


def test_everything_else_starts_as_it_does_for_asni_2(trainer: Trainer) -> None:
    amenable = asni_2(trainer).initial
    for control in (control_signs, control_mask):
        initial = control(trainer).initial
        assert all(torch.equal(initial[name], amenable[name]) for name in amenable if name not in LAYERS)


def test_a_weight_that_two_layers_share_is_shuffled_in_both(tmp_path: Path) -> None:
    trainer = small_trainer(tmp_path, small_recipe("tied"))
    amenable = asni_2(trainer).initial["2.weight"]
    for control in (control_signs, control_mask):
        initial = control(trainer).initial
        assert torch.equal(initial["2.weight"], initial["4.weight"])
        assert not torch.equal(initial["2.weight"], amenable)
        assert torch.equal(initial["2.weight"].flatten().sort().values, amenable.flatten().sort().values)

"""Masks that are chosen before training: SNIP, GraSP, SynFlow, and at random."""

from pathlib import Path

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from asni.methods.grasp import first_of_each_class, grasp
from asni.methods.random_mask import random_mask
from asni.methods.snip import snip
from asni.methods.synflow import synflow_masks
from asni.pruning import saliency
from asni.pruning.layers import prunable
from asni.pruning.masks import count
from tests.methods.small_recipe import small_recipe
from tests.training.training_setup import trainer as small_trainer


def test_snip_keeps_the_largest_scores_of_the_first_batch(tmp_path: Path) -> None:
    trainer = small_trainer(tmp_path, small_recipe())
    masks = snip(trainer).masks
    sensitivity = saliency.snip(trainer.network(), *next(trainer.batches(epoch=0)))
    kept = torch.cat([sensitivity[name][lives] for name, lives in masks.items()])
    gone = torch.cat([sensitivity[name][~lives] for name, lives in masks.items()])
    assert kept.min() >= gone.max()


def test_grasp_removes_the_largest_scores(tmp_path: Path) -> None:
    trainer = small_trainer(tmp_path, small_recipe())
    masks = grasp(trainer).masks
    flow = saliency.grasp(trainer.network(), *first_of_each_class(trainer, 10))
    kept = torch.cat([flow[name][lives] for name, lives in masks.items()])
    gone = torch.cat([flow[name][~lives] for name, lives in masks.items()])
    assert kept.max() <= gone.min()


def test_grasp_looks_at_the_first_images_of_each_class_one_class_after_the_other(tmp_path: Path) -> None:
    trainer = small_trainer(tmp_path, small_recipe().override(steps_per_epoch=50))
    images, labels = first_of_each_class(trainer, 10)
    assert labels.tolist() == [label for label in range(10) for _ in range(10)]
    all_images, all_labels = (torch.cat(parts) for parts in zip(*trainer.batches(epoch=0), strict=True))
    for label in range(10):
        assert torch.equal(images[labels == label], all_images[all_labels == label][:10])


@settings(max_examples=15)
@given(seed=st.integers(0, 1000), scale=st.floats(-3, 3), keep=st.integers(6, 60))
def test_synflow_never_empties_a_layer(seed: int, scale: float, keep: int) -> None:
    """However unlike the layers' sizes and scales are, while a path through the network can be afforded."""
    torch.manual_seed(seed)
    layers = [nn.Linear(30, 20, bias=False), nn.Linear(20, 3, bias=False), nn.Linear(3, 5, bias=False)]
    nn.init.normal_(layers[1].weight, std=10**scale)
    masks = synflow_masks(nn.Sequential(*layers), (30,), keep)
    assert count(masks) == keep
    assert all(lives.any() for lives in masks.values())


def test_synflow_pruned_at_once_would_empty_a_layer() -> None:
    """Why it takes a hundred iterations: the scores of the start are not those of a sparse network."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(100, 100, bias=False), nn.Linear(100, 2, bias=False))
    at_once, again_and_again = (synflow_masks(model, (100,), 6, iterations) for iterations in (1, 100))
    assert not all(lives.any() for lives in at_once.values())
    assert all(lives.any() for lives in again_and_again.values())


def test_a_random_mask_has_the_same_density_in_all_layers(tmp_path: Path) -> None:
    trainer = small_trainer(tmp_path, small_recipe(sparsity=0.5))
    masks = random_mask(trainer).masks
    for name, weight in prunable(trainer.network()).items():
        assert abs(int(masks[name].sum()) / weight.numel() - 0.5) < 0.15


def test_training_starts_from_the_values_of_the_seed(tmp_path: Path) -> None:
    trainer = small_trainer(tmp_path, small_recipe())
    given_values = trainer.network().state_dict()
    for method in (snip, grasp, random_mask):
        initial = method(trainer).initial
        assert all(torch.equal(value, given_values[name]) for name, value in initial.items())

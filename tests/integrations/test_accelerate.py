"""Pruners and accelerate: made before or after `prepare`, with accumulated gradients in bfloat16."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState, GradientState
from torch import nn
from torch.nn.functional import mse_loss

import asni
from tests.training.training_by_hand import small_network

METHODS = [asni.ASNI, asni.GMP, asni.Magnitude, asni.RigL, asni.SET, asni.Continuous]
STEPS = 20


@pytest.fixture(autouse=True)
def _no_accelerator_of_another_test() -> Iterator[None]:
    yield
    AcceleratorState._reset_state(reset_partial_state=True)
    GradientState._reset_state()


def accelerator() -> Accelerator:
    return Accelerator(cpu=True, gradient_accumulation_steps=2, mixed_precision="bf16")


def train(accelerator: Accelerator, model: nn.Module, optimizer: torch.optim.Optimizer, batches: range) -> None:
    """Batch `n` is always the same; every second one makes a step."""
    for batch in batches:
        generator = torch.Generator().manual_seed(batch)
        images, labels = torch.randn(16, 6, generator=generator), torch.randn(16, 2, generator=generator)
        with accelerator.accumulate(model):
            accelerator.backward(mse_loss(model(images), labels))
            optimizer.step()
            optimizer.zero_grad()


@pytest.mark.parametrize("method", METHODS)
def test_a_pruner_made_before_or_after_prepare_prunes_the_same_weights(method: Any) -> None:
    trained = []
    for before in (True, False):
        own, model = accelerator(), small_network()
        optimizer: torch.optim.Optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        if before:
            pruner = method(model, optimizer, sparsity=0.9, total_steps=STEPS)
        model, optimizer = own.prepare(model, optimizer)
        if not before:
            pruner = method(model, optimizer, sparsity=0.9, total_steps=STEPS)
        train(own, model, optimizer, range(2 * STEPS))
        assert pruner.steps == STEPS
        assert sum(int(mask.sum()) for mask in pruner.masks.values()) == 10
        trained.append(model.state_dict())
    first, second = trained
    assert all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("method", METHODS)
def test_a_state_saved_by_the_accelerator_resumes_bit_for_bit(method: Any, tmp_path: Path) -> None:
    def start() -> tuple[Accelerator, nn.Module, torch.optim.Optimizer]:
        own, model = accelerator(), small_network()
        model, optimizer = own.prepare(model, torch.optim.AdamW(model.parameters(), lr=0.01))
        own.register_for_checkpointing(method(model, optimizer, sparsity=0.9, total_steps=STEPS))
        return own, model, optimizer

    own, whole, optimizer = start()
    train(own, whole, optimizer, range(STEPS))
    own.save_state(str(tmp_path))
    train(own, whole, optimizer, range(STEPS, 2 * STEPS))

    own, resumed, optimizer = start()
    own.load_state(str(tmp_path))
    train(own, resumed, optimizer, range(STEPS, 2 * STEPS))
    expected = whole.state_dict()
    assert all(torch.equal(value, expected[name]) for name, value in resumed.state_dict().items())


def test_soft_thresholds_are_learnt_through_a_prepared_optimizer() -> None:
    own, model = accelerator(), small_network()
    model, optimizer = own.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))
    pruner = asni.STR(model, optimizer, decay=0.5)
    start = {name: score.detach().clone() for name, score in pruner.scores.items()}
    train(own, model, optimizer, range(2 * STEPS))
    assert pruner.steps == STEPS
    assert all(not torch.equal(score, start[name]) for name, score in pruner.scores.items())


def test_the_accelerator_clips_by_the_living_gradients_once_the_others_are_masked() -> None:
    norms = []
    for masked in (True, False):
        own, model = Accelerator(cpu=True), small_network()
        model, optimizer = own.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))
        pruner = asni.Hold(model, optimizer, {"0.weight": torch.eye(8, 6, dtype=torch.bool)})
        own.backward(model(torch.randn(16, 6, generator=torch.Generator().manual_seed(0))).square().sum())
        if masked:
            pruner.mask_gradients()
        norms.append(float(own.clip_grad_norm_(model.parameters(), 1e9)))
        living = pruner.clip_grad_norm_(1e9)
    assert norms[0] == pytest.approx(float(living))
    assert norms[0] < norms[1]

"""Continuous sparsification beside the authors' program, lolemacs/continuous-sparsification."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from asni.methods.continuous import HOTTEST, Continuous
from tests.methods.official.reading import masks, tensors, vectors

INPUTS, OUTPUTS = vectors("continuous")
GIVEN = tensors({key: INPUTS[key] for key in ("weights", "scores", "images")})
CASES: list[dict[str, Any]] = OUTPUTS["cases"]


def name_of(case: dict[str, Any]) -> str:
    return f"start {case['mask_initial_value']}, beta {case['temp']}"


with_gradients = [case for case in CASES if "gradient_of_scores" in case]
with_tickets = [case for case in CASES if "ticket_gates" in case]


def gated(start: float, lr: float = 1.0, **options: float) -> tuple[nn.Conv2d, torch.optim.Optimizer, Continuous]:
    """The layer with the given weights and scores; `options` are those of a training in one step of soft gates."""
    layer = nn.Conv2d(2, 3, 3, padding=1, bias=False).double()
    layer.weight.data.copy_(GIVEN["weights"])
    optimizer = torch.optim.SGD(layer.parameters(), lr=lr)
    training: dict[str, Any] = {"sparsity": 0.5, "epochs": 1, "steps_per_epoch": 1, "search": 1.0, **options}
    pruner = Continuous(layer, optimizer, start=start, **training)
    pruner.scores["weight"].data.copy_(GIVEN["scores"])
    pruner.fold()
    return layer, optimizer, pruner


def assert_equal(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-12)


def test_the_defaults_are_those_of_the_program() -> None:
    layer = nn.Conv2d(2, 3, 3)
    pruner = Continuous(layer, torch.optim.SGD(layer.parameters()), sparsity=0.5, epochs=1, steps_per_epoch=1)
    defaults = OUTPUTS["defaults"]
    assert bool((pruner.scores["weight"] == defaults["mask_initial_value"]).all())
    assert (pruner.penalty, HOTTEST) == (defaults["lmbda"], defaults["final_temp"])


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_gates_and_folded_weights(case: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Continuous, "temperature", case["temp"])
    layer, _, pruner = gated(case["mask_initial_value"])
    expected = tensors({key: case[key] for key in ("gates", "effective_weights")})
    assert_equal(pruner.formula("weight", torch.ones_like(layer.weight), GIVEN["scores"]).detach(), expected["gates"])
    assert_equal(layer.weight.detach(), expected["effective_weights"])


@pytest.mark.parametrize("case", with_gradients, ids=name_of)
def test_gradients(case: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Continuous, "temperature", case["temp"])
    layer, optimizer, pruner = gated(case["mask_initial_value"], penalty=0.0)
    loss = layer(GIVEN["images"]).square().mean()
    assert loss.item() == pytest.approx(case["loss_mean_square_of_outputs"], abs=1e-12)
    loss.backward()
    optimizer.step()
    expected = tensors({key: case[key] for key in ("gradient_of_weights", "gradient_of_scores")})
    assert_equal(GIVEN["weights"] - pruner.latent["weight"], expected["gradient_of_weights"])
    assert_equal(GIVEN["scores"] - pruner.scores["weight"].detach(), expected["gradient_of_scores"])


@pytest.mark.parametrize("case", with_tickets, ids=name_of)
def test_for_the_same_count_the_same_weights_live(case: dict[str, Any]) -> None:
    expected = masks({"weight": case["ticket_gates"]})["weight"]
    layer, optimizer, pruner = gated(case["mask_initial_value"], lr=0.0, sparsity=1 - float(expected.double().mean()))
    layer(GIVEN["images"]).square().mean().backward()
    optimizer.step()
    assert torch.equal(pruner.masks["weight"], expected)

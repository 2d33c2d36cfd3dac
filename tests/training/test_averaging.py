"""`average_last`: a training that ends with the mean of its last weights."""

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from torch import Tensor, nn

from asni.errors import StoppedError
from asni.methods import METHODS
from asni.pruning.hold import Hold
from asni.pruning.pruner import Pruner
from asni.recipes import Recipe
from asni.runs import names
from asni.runs.run import Run
from asni.sparse.stepper import Stepper
from asni.training import averaging
from asni.training.progress import Progress
from asni.training.round import MakePruner
from asni.training.trainer import Trainer
from tests.methods.small_recipe import small_recipe
from tests.training.training_setup import StopAfter, trainer

EPOCHS, STEPS = 2, 10


def recipe(network: str = "fading", **pruning: Any) -> Recipe:
    """Without batch norm and drop-out, unless the network is "normed"."""
    return small_recipe(network, epochs=EPOCHS, **pruning).override(steps_per_epoch=STEPS)


def averaged(network: str = "fading", **pruning: Any) -> Recipe:
    return recipe(network, **pruning).override(average_last=True)


class Remembering:
    """A trainer that remembers the weights after every step."""

    def __init__(self, inner: Trainer):
        self.inner = inner
        self.weights: list[dict[str, Tensor]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def train(self, stage: str, make_pruner: MakePruner, **options: Any) -> Run:
        def remembered(model: nn.Module, optimizer: torch.optim.Optimizer) -> Pruner | None:
            pruner = make_pruner(model, optimizer)
            optimizer.register_step_post_hook(
                lambda *_: self.weights.append({key: each.clone() for key, each in model.named_parameters()})
            )
            return pruner

        return self.inner.train(stage, remembered, **options)


def trained(root: Path, method: str, asked: Recipe) -> tuple[Run, list[dict[str, Tensor]]]:
    remembering = Remembering(trainer(root, asked))
    return METHODS[method].train(remembering), remembering.weights  # type: ignore[arg-type]


def mean(weights: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    return {name: torch.stack([each[name].double() for each in weights]).mean(0).float() for name in weights[0]}


def same(first: Mapping[str, Tensor], second: Mapping[str, Tensor]) -> bool:
    return all(torch.equal(value, second[name]) for name, value in first.items())


def close(first: Mapping[str, Tensor], second: Mapping[str, Tensor]) -> bool:
    return all(torch.allclose(value, second[name], rtol=1e-4, atol=1e-6) for name, value in first.items())


def test_a_dense_training_ends_with_the_mean_of_its_last_epoch(tmp_path: Path) -> None:
    run, weights = trained(tmp_path, "dense", averaged())
    assert len(weights) == EPOCHS * STEPS
    assert close(run.weights, mean(weights[-STEPS:]))
    assert not close(run.weights, weights[-1])
    plain, _ = trained(tmp_path / "plain", "dense", recipe())
    assert same(plain.weights, weights[-1]), "the option changes no step"


def test_a_pruned_training_ends_with_the_mean_since_its_last_pruning(tmp_path: Path) -> None:
    run, weights = trained(tmp_path, "asni-1", averaged(every=4))
    # Five prunings are planned, and the fourth is the last, after step 16 of 20.
    assert close(run.weights, mean(weights[15:]))
    for name, lives in run.masks.items():
        assert not run.weights[name][~lives].any()
    assert run.result["nonzeros"] == trained(tmp_path / "plain", "asni-1", recipe(every=4))[0].result["nonzeros"]


def test_a_long_epoch_is_averaged_over_some_of_its_weights_and_the_last_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(averaging, "SNAPSHOTS", 3)
    run, weights = trained(tmp_path, "dense", averaged())
    assert close(run.weights, mean([weights[10 + step] for step in (0, 3, 6, 9)]))


def test_batch_norm_has_the_statistics_of_the_averaged_weights(tmp_path: Path) -> None:
    asked = averaged("normed")
    run = METHODS["asni-1"].train(trainer(tmp_path, asked))
    weight, bias = run.weights["1.weight"], run.weights["1.bias"]
    batches = list(trainer(tmp_path, asked).batches(EPOCHS - 1))
    assert len(batches) == STEPS
    inputs = [images.flatten(1) @ weight.T + bias for images, _ in batches]
    torch.testing.assert_close(run.weights["2.running_mean"], torch.stack([each.mean(0) for each in inputs]).mean(0))
    torch.testing.assert_close(run.weights["2.running_var"], torch.stack([each.var(0) for each in inputs]).mean(0))


def test_sparse_kernels_end_with_the_same_average_up_to_rounding(tmp_path: Path) -> None:
    pytest.importorskip("asni.engine.native")
    asked = averaged("fading")
    dense = METHODS["random"].train(trainer(tmp_path / "dense", asked))
    sparse = METHODS["random"].train(trainer(tmp_path / "sparse", asked, accelerate=Stepper, kernels="sparse"))
    assert sparse.result["sparse_steps"] > STEPS
    assert close(sparse.weights, dense.weights)
    assert sparse.result["accuracy"] == pytest.approx(dense.result["accuracy"], abs=0.5)


def test_masks_that_never_rest_are_not_averaged_which_is_said_in_one_line(tmp_path: Path) -> None:
    class Restless(Hold):
        """May change its masks after any step."""

        def after_step(self) -> None:
            super().after_step()

    said = io.StringIO()
    made = trainer(tmp_path / "averaged", averaged(), progress=Progress(Console(file=said, width=200)))
    plain = trainer(tmp_path / "plain", recipe())
    assert same(made.train("asni-1", Restless).weights, plain.train("asni-1", Restless).weights)
    [line] = [line for line in said.getvalue().splitlines() if "average" in line]
    assert line == "asni-1: --average-last changed nothing: the masks change up to the last steps"


@pytest.mark.parametrize("method", ["asni-1", "dense", "random"])
def test_a_stopped_training_ends_with_the_same_average_bit_for_bit(tmp_path: Path, method: str) -> None:
    asked = averaged("normed", every=4)
    undisturbed = METHODS[method].train(trainer(tmp_path / "undisturbed", asked))
    run = None
    while run is None:
        try:
            run = METHODS[method].train(trainer(tmp_path / "stopped", asked, progress=StopAfter(STEPS + 5)))
        except StoppedError:
            assert run is None
    assert same(run.weights, undisturbed.weights)


def test_a_ticket_is_rewound_to_the_weights_of_a_step_and_not_to_an_average(tmp_path: Path) -> None:
    asked = averaged().override(lottery_rewind=15)
    once = trainer(tmp_path, asked)
    METHODS["magnitude-rewind"].train(once)
    _, weights = trained(tmp_path / "plain", "dense", recipe())
    assert same(once.rounds[names.dense_until_name(15)].weights, weights[14])

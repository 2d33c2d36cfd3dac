"""A training whose steps are taken by other kernels while the masks rest."""

import io
from pathlib import Path

import pytest
import torch
from rich.console import Console

from asni.errors import AsniError, StoppedError
from asni.files import read_checkpoint, write_checkpoint
from asni.methods import METHODS
from asni.recipes import Recipe
from asni.runs.run import Run
from asni.training.kernels import Choice
from asni.training.processes import make_fabric
from asni.training.progress import Progress
from asni.training.trainer import Trainer
from tests.methods.small_recipe import NEEDS, small_recipe
from tests.training.other_kernels import Making
from tests.training.test_training import equal
from tests.training.training_setup import StopAfter, experiment, trainer

NEVER = {"dense", "str"}
"""Methods without a step that leaves masks of pruned weights as they are."""


@pytest.fixture
def accelerate(monkeypatch: pytest.MonkeyPatch) -> Making:
    """With a clock of its own, so that the real one decides nothing; small networks are worth it too."""
    making = Making()
    monkeypatch.setattr("asni.training.kernels.perf_counter", making.clock)
    monkeypatch.setattr("asni.training.trial.LEAST_WORK", 0.0)
    return making


def recipe(steps_per_epoch: int = 3, epochs: int = 12) -> Recipe:
    small = small_recipe(epochs=epochs, sparsity=0.8, every="epoch")
    return small.override(steps_per_epoch=steps_per_epoch, lottery_rounds=2)


def trained(
    root: Path,
    method: str,
    asked: Recipe,
    accelerate: Making,
    kernels: Choice = "sparse",
    progress: Progress | None = None,
) -> Run:
    return METHODS[method].train(trainer(root, asked, progress=progress, kernels=kernels, accelerate=accelerate))


class Lines(Progress):
    """Keeps what is said about the kernels."""

    def __init__(self) -> None:
        self.text = io.StringIO()
        super().__init__(Console(file=self.text, width=200))

    @property
    def said(self) -> list[str]:
        lines = self.text.getvalue().splitlines()
        return [line for line in lines if "kernels" in line or "masked steps" in line]


@pytest.mark.parametrize("method", METHODS)
def test_every_method_trains_the_same_network_through_other_kernels(
    tmp_path: Path, method: str, accelerate: Making
) -> None:
    """Whoever looked at the model before it has its values, or forgot a step, would change the bits."""
    asked = recipe().override(**NEEDS.get(method, {}))
    dense = METHODS[method].train(trainer(tmp_path / "dense", asked))
    other = trained(tmp_path / "other", method, asked, accelerate)
    assert (dense.result["kernels"], dense.result["sparse_steps"]) == ("dense", 0)
    assert (other.result["kernels"] == "dense") == (method in NEVER)
    assert equal(other.weights, dense.weights)
    assert other.result["accuracy"] == dense.result["accuracy"]
    if method != "dense":
        assert equal(other.masks, dense.masks)


@pytest.mark.parametrize("stop", [2, 4, 8, 22, 29])
@pytest.mark.parametrize("method", ["asni-1", "gmp", "rigl", "set", "early-bird", "continuous", "random"])
def test_a_stopped_training_continues_with_the_same_kernels_bit_for_bit(
    tmp_path: Path, method: str, stop: int, accelerate: Making
) -> None:
    accelerate.dtype = torch.float64
    unhurt = trained(tmp_path / "unhurt", method, recipe(), accelerate)
    with pytest.raises(StoppedError):
        trained(tmp_path / "stopped", method, recipe(), accelerate, progress=StopAfter(stop))
    resumed = trained(tmp_path / "stopped", method, recipe(), accelerate)
    assert equal(resumed.weights, unhurt.weights)
    assert equal(resumed.masks, unhurt.masks)
    assert resumed.result["sparse_steps"] == unhurt.result["sparse_steps"] > 0
    dense = METHODS[method].train(trainer(tmp_path / "dense", recipe()))
    assert not equal(dense.weights, unhurt.weights), "the bits of the two kernels differ"


@pytest.mark.parametrize("stop", [50, 90])
def test_what_was_chosen_at_first_is_kept_after_a_stop(tmp_path: Path, stop: int, accelerate: Making) -> None:
    """After the second stop, the 40 steps that are left would not be worth other kernels."""
    accelerate.dtype = torch.float64
    asked = recipe(steps_per_epoch=40, epochs=3)
    unhurt = trained(tmp_path / "unhurt", "random", asked, accelerate, "auto")
    with pytest.raises(StoppedError):
        trained(tmp_path / "stopped", "random", asked, accelerate, "auto", StopAfter(stop))
    resumed = trained(tmp_path / "stopped", "random", asked, accelerate, "auto")
    assert equal(resumed.weights, unhurt.weights)
    assert resumed.result["sparse_steps"] == 3 * 40 - 3


@pytest.mark.parametrize(("first", "then"), [("sparse", "dense"), ("dense", "sparse"), ("sparse", "auto")])
def test_a_training_may_continue_with_other_kernels(
    tmp_path: Path, first: Choice, then: Choice, accelerate: Making
) -> None:
    dense = METHODS["asni-1"].train(trainer(tmp_path / "dense", recipe()))
    whole = trained(tmp_path / "whole", "asni-1", recipe(), accelerate)
    with pytest.raises(StoppedError):
        trained(tmp_path / "two", "asni-1", recipe(), accelerate, first, StopAfter(20))
    continued = trained(tmp_path / "two", "asni-1", recipe(), accelerate, then)
    assert equal(continued.weights, dense.weights)
    assert 0 < continued.result["sparse_steps"] < whole.result["sparse_steps"]


def test_a_checkpoint_from_before_there_were_other_kernels_is_continued(tmp_path: Path, accelerate: Making) -> None:
    with pytest.raises(StoppedError):
        trained(tmp_path, "random", recipe(), accelerate, progress=StopAfter(8))
    for path in experiment(tmp_path, recipe()).run("random").directory.glob("checkpoint-*.pt"):
        state = read_checkpoint(path)
        del state["kernels"]
        write_checkpoint(path, state)
    assert trained(tmp_path, "random", recipe(), accelerate).result["kernels"] == "sparse"


def test_one_line_says_which_kernels_train(tmp_path: Path, accelerate: Making) -> None:
    progress = Lines()
    run = trained(tmp_path, "random", recipe(60, epochs=2), accelerate, "auto", progress)
    assert run.result["sparse_steps"] == 2 * 60 - 3, "three dense steps come first"
    assert progress.said == ["random: masked steps for all layers, steps 4.0x as fast"]


def test_a_resumed_training_says_it_again(tmp_path: Path, accelerate: Making) -> None:
    progress = Lines()
    with pytest.raises(StoppedError):
        trained(tmp_path, "random", recipe(), accelerate, progress=StopAfter(8))
    trained(tmp_path, "random", recipe(), accelerate, progress=progress)
    assert progress.said == ["random: masked steps for all layers"]


def test_the_other_kernels_evaluate_too(tmp_path: Path, accelerate: Making) -> None:
    trained(tmp_path, "random", recipe(), accelerate)
    # Two more images show whether they evaluate as the model does.
    assert [stepper.evaluated for stepper in accelerate.steppers] == [2 + 12 * 297]


def test_a_network_with_another_forward_in_evaluation_mode_is_evaluated_by_torch(
    tmp_path: Path, accelerate: Making
) -> None:
    expected = trained(tmp_path / "alike", "random", recipe(), accelerate)
    accelerate.evaluates = lambda logits: -logits
    found = trained(tmp_path / "other", "random", recipe(), accelerate)
    assert [stepper.evaluated for stepper in accelerate.steppers] == [2 + 12 * 297, 2]
    assert (found.result["accuracy"], found.result["sparse_steps"]) == (
        expected.result["accuracy"],
        expected.result["sparse_steps"],
    )


@pytest.mark.parametrize("kernels", ["auto", "sparse"])
def test_what_they_cannot_train_is_trained_densely_and_one_line_says_why(
    tmp_path: Path, kernels: Choice, accelerate: Making
) -> None:
    progress, asked, accelerate.refuses = Lines(), recipe(60, epochs=2), "no kernel for 'gate' (PReLU)"
    run = trained(tmp_path / "other", "random", asked, accelerate, kernels, progress)
    assert progress.said == ["random: dense kernels: no kernel for 'gate' (PReLU)"]
    assert accelerate.asked == 1
    assert equal(run.weights, METHODS["random"].train(trainer(tmp_path / "dense", asked)).weights)


@pytest.mark.parametrize(
    ("predicted", "measured", "sparse_steps", "said"),
    [
        (1.1, 4.0, 0, "dense kernels: sparse ones would be 1.1x as fast"),
        (4.0, 0.8, 5, "dense kernels: sparse ones are 0.8x as fast here"),
        (1.3, 1.0, 117, "masked steps for all layers, steps 1.0x as fast"),
    ],
)
def test_kernels_that_are_not_faster_are_not_kept_unless_they_are_asked_for(
    tmp_path: Path, predicted: float, measured: float, sparse_steps: int, said: str, accelerate: Making
) -> None:
    progress, accelerate.predicted, accelerate.measured = Lines(), predicted, measured
    run = trained(tmp_path / "auto", "random", recipe(60, epochs=2), accelerate, "auto", progress)
    assert run.result["sparse_steps"] == sparse_steps
    assert progress.said == [f"random: {said}"]
    asked = trained(tmp_path / "asked", "random", recipe(60, epochs=2), accelerate)
    assert asked.result["sparse_steps"] == 117


@pytest.mark.parametrize(("takes", "sparse_steps"), [(44.0, 60 + 60 + 60), (46.0, 60 + 5 + 60)])
def test_kernels_for_each_mask_are_made_if_that_takes_less_than_they_save(
    tmp_path: Path, takes: float, sparse_steps: int, accelerate: Making
) -> None:
    """Three quarters of a second are saved in each of 60 steps.

    ASNI-I is sparse enough for the last three epochs, and prunes after the first two of them. What it takes to make
    kernels again is known when the second one begins; in the third one the masks rest.
    """
    accelerate.takes, progress = takes, Lines()
    run = trained(tmp_path, "asni-1", recipe(60, epochs=8), accelerate, "auto", progress)
    assert run.result["sparse_steps"] == sparse_steps
    assert progress.said == ["asni-1: masked steps for all layers, steps 4.0x as fast"]


@pytest.mark.parametrize(
    ("method", "asked"),
    [
        pytest.param("random", recipe(20, epochs=2), id="too short"),
        pytest.param("dense", recipe(60, epochs=2), id="dense"),
        pytest.param("random", recipe(60, epochs=2).override(sparsity=0.2), id="hardly pruned"),
    ],
)
def test_nothing_is_made_or_said_where_nobody_would_expect_it(
    tmp_path: Path, method: str, asked: Recipe, accelerate: Making
) -> None:
    progress = Lines()
    run = trained(tmp_path, method, asked, accelerate, "auto", progress)
    assert (run.result["kernels"], accelerate.asked, progress.said) == ("dense", 0, [])


def test_kernels_are_not_made_for_a_training_of_a_moment(
    tmp_path: Path, accelerate: Making, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = recipe(60, epochs=2)
    # 934 parameters, batches of 30 images, 120 steps.
    for least, made in {934 * 30 * 120 + 1.0: 0, 934 * 30 * 120.0: 1}.items():
        monkeypatch.setattr("asni.training.trial.LEAST_WORK", least)
        trained(tmp_path / str(made), "random", asked, accelerate, "auto")
        assert accelerate.asked == made


@pytest.mark.parametrize(
    ("method", "why"),
    [
        ("dense", "nothing is pruned"),
        ("str", "no step had pruned weights and masks that stay as they are"),
    ],
)
def test_who_asks_for_sparse_kernels_is_told_why_there_are_none(
    tmp_path: Path, method: str, why: str, accelerate: Making
) -> None:
    progress = Lines()
    trained(tmp_path, method, recipe(), accelerate, progress=progress)
    assert {line.split(": ", 1)[1] for line in progress.said} == {f"dense kernels: {why}"}


@pytest.mark.parametrize(("kernels", "said"), [("auto", 0), ("sparse", 1)])
def test_other_precisions_train_densely(tmp_path: Path, kernels: Choice, said: int, accelerate: Making) -> None:
    progress, fabric = Lines(), make_fabric("cpu", precision="bf16")
    asked = experiment(tmp_path, recipe(60, epochs=2))
    METHODS["random"].train(Trainer(asked, fabric, progress, accelerate=accelerate, kernels=kernels))
    assert accelerate.asked == 0
    assert progress.said == ["random: dense kernels: sparse ones compute in fp32"] * said


def test_a_loss_that_diverges_is_noticed(tmp_path: Path, accelerate: Making) -> None:
    with pytest.raises(AsniError, match=r"--lr"):
        trained(tmp_path, "random", recipe().override(lr=1e30), accelerate)

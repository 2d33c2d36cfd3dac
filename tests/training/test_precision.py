from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from lightning_fabric import Fabric
from lightning_fabric.plugins.precision.amp import MixedPrecision
from rich.console import Console
from torch import nn
from torch.amp import GradScaler
from torch.optim import SGD, Adam, Optimizer

from asni.errors import StoppedError, UsageError
from asni.methods import METHODS
from asni.methods.asni import ASNI
from asni.pruning.masks import count
from asni.recipes import Recipe
from asni.runs.run import Experiment
from asni.training.processes import make_fabric
from asni.training.progress import Progress
from asni.training.trainer import Trainer
from tests.training.test_training import equal
from tests.training.training_setup import StopAfter

FIRST_SCALE = 2.0**24

OPTIMIZERS: dict[str, Callable[[nn.Module], Optimizer]] = {
    "sgd": lambda model: SGD(model.parameters(), lr=0.1, momentum=0.9),
    "fused sgd": lambda model: SGD(model.parameters(), lr=0.1, momentum=0.9, fused=True),
    "fused adam": lambda model: Adam(model.parameters(), lr=0.1, fused=True),
}


def scaled_step(model: nn.Module, optimizer: Optimizer, scaler: GradScaler, image: torch.Tensor) -> None:
    optimizer.zero_grad()
    scaler.scale(model(image).sum()).backward()
    scaler.step(optimizer)
    scaler.update()


@pytest.mark.parametrize("make", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_a_step_that_the_scaler_skips_leaves_weights_masks_and_schedule_alone(
    make: Callable[[nn.Module], Optimizer],
) -> None:
    model = nn.Linear(8, 4)
    optimizer, scaler = make(model), GradScaler("cpu", init_scale=4.0)
    pruner = ASNI(model, optimizer, sparsity=0.5, epochs=3, steps_per_epoch=2)
    fine, overflowing = torch.ones(1, 8), torch.full((1, 8), torch.inf)
    scaled_step(model, optimizer, scaler, fine)

    before, dense = model.weight.detach().clone(), pruner.masks
    scaled_step(model, optimizer, scaler, overflowing)
    assert torch.equal(model.weight, before)
    assert equal(pruner.masks, dense)
    assert pruner.steps == 1
    assert scaler.get_scale() == 2.0, "the step was skipped for its overflow"

    scaled_step(model, optimizer, scaler, fine)
    assert pruner.steps == 2
    assert int((~pruner.masks["weight"]).sum()) == round(32 * pruner.schedule(0, 3)) > 0
    assert torch.equal(model.weight != 0, pruner.masks["weight"])


def batch_norm_network(shape: tuple[int, int, int], classes: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(shape[0], 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Flatten(),
        nn.Dropout(),
        nn.Linear(512, classes),
    )


def recipe() -> Recipe:
    training = {
        "epochs": 4,
        "batch_size": 50,
        "steps_per_epoch": 5,
        "optimizer": "sgd",
        "lr": 0.05,
        "momentum": 0.9,
        "lr_policy": "cosine",
        "warmup_epochs": 2,
        "threads": 1,
        "augment": "crop-flip",
    }
    return Recipe.model_validate(
        {
            "name": "small",
            "dataset": "digits",
            "network": f"{__name__}:batch_norm_network",
            "training": training,
            "pruning": {"sparsity": 0.9},
        }
    )


def trainer(home: Path, fabric: Fabric, progress: Progress | None = None) -> Trainer:
    return Trainer(Experiment(recipe(), 0, "fp32", home), fabric, progress or Progress(Console(quiet=True)))


def half_precision_with_scaler() -> Fabric:
    """What fp16 is on a GPU, with a scale that overflows at first and changes often."""
    scaler = GradScaler("cpu", init_scale=FIRST_SCALE, growth_interval=3)
    return Fabric(accelerator="cpu", devices=1, plugins=[MixedPrecision("16-mixed", "cpu", scaler)])


@pytest.mark.parametrize("make", [lambda: make_fabric("cpu", precision="bf16"), half_precision_with_scaler])
def test_scaler_statistics_crops_and_warm_up_come_back_bit_for_bit(tmp_path: Path, make: Callable[[], Fabric]) -> None:
    straight = make()
    unhurt = METHODS["asni-1"].train(trainer(tmp_path / "unhurt", straight))
    with pytest.raises(StoppedError):
        METHODS["asni-1"].train(trainer(tmp_path / "stopped", make(), StopAfter(13)))
    resumed = make()
    stopped = METHODS["asni-1"].train(trainer(tmp_path / "stopped", resumed))
    assert equal(stopped.weights, unhurt.weights)
    assert equal(stopped.masks, unhurt.masks)
    assert "1.running_var" in unhurt.weights
    assert resumed.strategy.precision.state_dict() == straight.strategy.precision.state_dict()
    assert straight.strategy.precision.state_dict().get("scale") != FIRST_SCALE, "steps were skipped"
    assert {value.dtype for value in unhurt.weights.values()} == {torch.float32, torch.int64}


def test_bf16_is_another_training_with_the_same_nonzeros(tmp_path: Path) -> None:
    single, half = (
        METHODS["asni-1"].train(trainer(tmp_path / precision, make_fabric("cpu", precision=precision)))
        for precision in ("fp32", "bf16")
    )
    assert single.result["nonzeros"] == half.result["nonzeros"]
    assert not equal(single.weights, half.weights)
    assert equal(single.initial, half.initial)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here")
@pytest.mark.parametrize("device", ["cpu", "auto"])
def test_fp16_without_cuda_is_refused(device: str) -> None:
    with pytest.raises(UsageError, match=r"fp16.*CUDA"):
        make_fabric(device, precision="fp16")


@pytest.mark.parametrize("epochs", [1, 2])
def test_steps_that_the_scaler_skips_do_not_delay_the_pruning_beyond_the_end(tmp_path: Path, epochs: int) -> None:
    short = recipe().override(epochs=epochs, steps_per_epoch=3)
    fabric = half_precision_with_scaler()
    trained = Trainer(Experiment(short, 0, "fp32", tmp_path), fabric, Progress(Console(quiet=True)))
    assert count(METHODS["asni-1"].train(trained).masks) == trained.keep
    assert fabric.strategy.precision.state_dict()["scale"] < FIRST_SCALE, "steps were skipped"

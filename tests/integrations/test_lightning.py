"""The callback for the Trainer of Lightning, with the real Trainer and a small network."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from pytorch_lightning import Callback, LightningModule, Trainer
from pytorch_lightning.callbacks import EMAWeightAveraging, ModelCheckpoint
from torch import Tensor, nn
from torch.nn.functional import mse_loss
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

import asni
from asni.errors import SparsityWarning, UsageError
from asni.integrations.lightning import SparsityCallback
from tests.training.training_by_hand import alive, small_network

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*isinstance.treespec, LeafSpec.:FutureWarning",  # by Lightning itself with torch 2.13
    "ignore:.*does not have many workers:UserWarning",
    "ignore:Checkpoint directory .* exists and is not empty:UserWarning",
)

METHODS = [asni.ASNI, asni.GMP, asni.RigL, asni.SET, asni.Continuous]
EPOCHS, STEPS = 8, 24  # 11 batches in 3 accumulated steps, 8 times


class Module(LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = small_network()

    def training_step(self, batch: list[Tensor], _: int) -> Tensor:
        images, labels = batch
        return mse_loss(self.net(images.to(self.dtype)), labels.to(self.dtype))

    def test_step(self, batch: list[Tensor], index: int) -> Tensor:
        return self.training_step(batch, index)

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.AdamW(self.parameters(), lr=0.01)
        return [optimizer], [torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS)]


def batches() -> DataLoader[tuple[Tensor, ...]]:
    generator = torch.Generator().manual_seed(0)
    return DataLoader(
        TensorDataset(torch.randn(44, 6, generator=generator), torch.randn(44, 2, generator=generator)), batch_size=4
    )


def quiet_trainer(*callbacks: Callback, **arguments: Any) -> Trainer:
    settings: dict[str, Any] = {
        "accelerator": "cpu",
        "max_epochs": EPOCHS,
        "accumulate_grad_batches": 4,
        "logger": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "enable_checkpointing": any(isinstance(callback, ModelCheckpoint) for callback in callbacks),
    }
    return Trainer(callbacks=list(callbacks), **(settings | arguments))


def every_epoch(directory: Path) -> ModelCheckpoint:
    return ModelCheckpoint(dirpath=directory, filename="{epoch}", save_top_k=-1, save_on_train_epoch_end=True)


@pytest.mark.parametrize(
    ("method", "precision"),
    [
        *((method, "32-true") for method in METHODS),
        (asni.GMP, "bf16-mixed"),
        (asni.GMP, "bf16-true"),
    ],
)
def test_a_training_resumed_in_the_middle_ends_bit_for_bit_where_the_undisturbed_one_ends(
    tmp_path: Path, method: Any, precision: str
) -> None:
    whole, resumed = Module(), Module()
    options = {"precision": precision, "gradient_clip_val": 0.1}
    quiet_trainer(SparsityCallback(method, sparsity=0.9), every_epoch(tmp_path), **options).fit(whole, batches())
    callback = SparsityCallback(method, sparsity=0.9)
    quiet_trainer(callback, every_epoch(tmp_path), **options).fit(
        resumed, batches(), ckpt_path=tmp_path / "epoch=2.ckpt"
    )
    assert callback.pruner.steps == STEPS
    assert sum(int(mask.sum()) for mask in callback.pruner.masks.values()) == 10
    expected = whole.state_dict()
    assert all(torch.equal(value, expected[name]) for name, value in resumed.state_dict().items())


def test_soft_thresholds_are_learnt() -> None:
    callback = SparsityCallback(asni.STR, decay=0.5)
    quiet_trainer(callback).fit(Module(), batches())
    assert callback.pruner.steps == STEPS


def test_the_sparsity_is_logged() -> None:
    trainer = quiet_trainer(SparsityCallback(asni.GMP, sparsity=0.9))
    trainer.fit(Module(), batches())
    assert float(trainer.callback_metrics["sparsity"]) == pytest.approx(88 / 98)


class StopAfter(Callback):
    """Stops as `EarlyStopping` does."""

    def __init__(self, epochs: int):
        self.epochs = epochs

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        trainer.should_stop = trainer.current_epoch + 1 >= self.epochs


def test_a_training_that_stops_early_is_pruned_to_the_target_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    module, last = Module(), ModelCheckpoint(dirpath=tmp_path, save_last=True, save_top_k=0)
    quiet_trainer(SparsityCallback(asni.GMP, sparsity=0.9), StopAfter(3), last).fit(module, batches())
    assert alive(module.net) == 10
    assert "GMP finished after step 9 of 24" in caplog.text
    saved = torch.load(tmp_path / "last.ckpt", weights_only=True)["state_dict"]
    assert all(torch.equal(value, saved[name]) for name, value in module.state_dict().items())


def test_a_training_after_a_test_of_a_checkpoint_starts_from_its_beginning(tmp_path: Path) -> None:
    callback = SparsityCallback(asni.GMP, sparsity=0.9)
    trainer = quiet_trainer(callback, max_epochs=2)
    trainer.fit(Module(), batches())
    trainer.save_checkpoint(tmp_path / "short.ckpt")
    trainer = quiet_trainer(callback)
    trainer.test(Module(), batches(), ckpt_path=tmp_path / "short.ckpt", verbose=False)
    trainer.fit(Module(), batches())
    assert callback.pruner.steps == STEPS


def test_a_checkpoint_without_the_state_of_the_pruner_is_refused(tmp_path: Path) -> None:
    quiet_trainer(every_epoch(tmp_path), max_epochs=3).fit(Module(), batches())
    with pytest.raises(UsageError, match=r"epoch=2\.ckpt.*SparsityCallback"):
        quiet_trainer(SparsityCallback(asni.GMP, sparsity=0.9), every_epoch(tmp_path)).fit(
            Module(), batches(), ckpt_path=tmp_path / "epoch=2.ckpt"
        )


@pytest.mark.parametrize(
    ("callback", "arguments", "difference"),
    [
        (lambda: SparsityCallback(asni.GMP, sparsity=0.8), {}, r"sparsity.*0\.9.*0\.8|sparsity.*0\.8.*0\.9"),
        (lambda: SparsityCallback(asni.RigL, sparsity=0.9), {}, r"GMP.*RigL|RigL.*GMP"),
        (lambda: SparsityCallback(asni.GMP, sparsity=0.9), {"max_epochs": 10}, r"24\b.*30\b|30\b.*24\b"),
    ],
)
def test_the_state_of_another_sparsity_method_or_length_is_refused(
    tmp_path: Path, callback: Any, arguments: dict[str, Any], difference: str
) -> None:
    quiet_trainer(SparsityCallback(asni.GMP, sparsity=0.9), every_epoch(tmp_path)).fit(Module(), batches())
    with pytest.raises(UsageError, match=difference):
        quiet_trainer(callback(), every_epoch(tmp_path), **arguments).fit(
            Module(), batches(), ckpt_path=tmp_path / "epoch=2.ckpt"
        )


def test_a_second_fit_is_as_long_as_it_is() -> None:
    module, trainer = Module(), quiet_trainer(max_epochs=2)
    trainer.fit(module, batches())
    trainer.fit_loop.max_epochs = 6
    callback = SparsityCallback(asni.GMP, sparsity=0.9)
    trainer.callbacks.append(callback)  # type: ignore[attr-defined]
    trainer.fit(module, batches())
    assert repr(callback.pruner) == "GMP(step 12/12, 89.8 % pruned, 10 alive)"


@pytest.mark.parametrize("first", [True, False])
def test_an_average_that_lightning_puts_into_the_module_is_sparse_too(first: bool) -> None:
    module, callback, average = Module(), SparsityCallback(asni.GMP, sparsity=0.9), EMAWeightAveraging(decay=0.9)
    with pytest.warns(SparsityWarning, match="pruned weights of GMP were overwritten, by an average"):
        quiet_trainer(*([average, callback] if first else [callback, average])).fit(module, batches())
    assert alive(module.net) == callback.pruner.alive == 10


class Clipped(Callback):
    """The norms of the gradients that the optimiser uses."""

    def __init__(self) -> None:
        self.norms: list[float] = []

    def on_before_zero_grad(self, trainer: Trainer, pl_module: LightningModule, optimizer: Any) -> None:
        gradients = [weight.grad for weight in pl_module.parameters() if weight.grad is not None]
        if gradients:
            self.norms.append(float(torch.nn.utils.get_total_norm(gradients)))


def test_clipping_counts_living_gradients_only() -> None:
    clipped = Clipped()
    quiet_trainer(SparsityCallback(asni.GMP, sparsity=0.9), clipped, gradient_clip_val=1e-3).fit(Module(), batches())
    # Gradients of dead weights would be clipped first and masked afterwards: the rest would be shorter.
    assert clipped.norms == pytest.approx([1e-3] * (STEPS - 1), rel=1e-3)


class Endless(IterableDataset[tuple[Tensor, Tensor]]):
    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        while True:
            yield torch.ones(6), torch.ones(2)


def test_a_training_without_an_end_is_refused() -> None:
    with pytest.raises(UsageError, match=r"max_steps"):
        quiet_trainer(SparsityCallback(asni.GMP, sparsity=0.9)).fit(Module(), DataLoader(Endless(), batch_size=4))


class TwoOptimizers(Module):
    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False

    def configure_optimizers(self) -> Any:
        layers = [layer for layer in self.net.modules() if isinstance(layer, nn.Linear)]
        return [torch.optim.SGD(layer.parameters(), lr=0.01) for layer in layers[:2]]


def test_several_optimizers_are_refused() -> None:
    with pytest.raises(UsageError, match=r"2 optimizers"):
        quiet_trainer(SparsityCallback(asni.GMP, sparsity=0.9), accumulate_grad_batches=1).fit(
            TwoOptimizers(), batches()
        )

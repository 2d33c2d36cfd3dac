"""One round of training: the loop, its checkpoints, and what it leaves behind."""

import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Literal, cast

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from asni import datasets, networks
from asni.datasets import epoch_order
from asni.environment import environment
from asni.errors import AsniError, StoppedError, UsageError
from asni.evaluation import TEST_BATCH, count_correct
from asni.files import write_atomically
from asni.hold import Hold
from asni.masks import count, prunable
from asni.progress import Bar, Progress
from asni.recipes import Recipe, lr_at
from asni.runs import Job, Run

Plug = Callable[[nn.Module, torch.optim.Optimizer], Hold | None]
"""Makes a method's pruner for one round, or nothing for a dense one."""


class Trainer:
    """Trains one seed of one recipe; all its rounds share the initial values and the order of the data."""

    def __init__(self, job: Job, fabric: Fabric, progress: Progress):
        self.job, self.recipe, self.seed = job, job.recipe, job.seed
        self.fabric, self.progress = fabric, progress
        if job.recipe.training.threads is not None:
            torch.set_num_threads(job.recipe.training.threads)
        self.dataset = datasets.load(job.recipe.dataset)
        batch_size, images = job.recipe.training.batch_size, self.dataset.info.train
        if batch_size > images:
            raise UsageError(f"batch_size = {batch_size} is more than the {images} training images.")
        self.steps_per_epoch = job.recipe.steps_per_epoch(images)
        self._trained_here: set[str] = set()

    def network(self, state: Mapping[str, Tensor] | None = None) -> nn.Module:
        """The recipe's network, with the seed's initial values or those given."""
        info = self.dataset.info
        torch.manual_seed(self.seed)
        model = networks.build(self.recipe.network, info.shape, info.classes, self.recipe.network_options)
        networks.check_output(model, info.shape, info.classes)
        if state is not None:
            model.load_state_dict(state)
        return model

    def train(self, stage: str, plug: Plug, *, start: Mapping[str, Tensor] | None = None) -> Run:
        """One round, unless it was finished before: `start` replaces the seed's initial values."""
        run = self.job.run(stage)
        with run.locked() if self.fabric.is_global_zero else nullcontext():
            if not self.fabric.broadcast(run.finished):
                _Round(self, run, stage, plug, start).train()
                self._trained_here.add(stage)
            elif stage not in self._trained_here:
                self.progress.already_done(stage, run.directory)
        return run


class _Round:
    """The state of one round while it trains."""

    def __init__(self, trainer: Trainer, run: Run, stage: str, plug: Plug, start: Mapping[str, Tensor] | None):
        self.trainer, self.run, self.stage = trainer, run, stage
        self.fabric, self.recipe = trainer.fabric, trainer.recipe
        self.module = trainer.network(start)
        self.raw_optimizer = make_optimizer(self.module, self.recipe)
        self.model, self.optimizer = self.fabric.setup(self.module, self.raw_optimizer)
        self.initial = {name: value.detach().clone() for name, value in self.module.state_dict().items()}
        self.pruner = plug(self.module, self.raw_optimizer)
        self.metrics: list[dict[str, Any]] = []
        # Drop-out and the like draw from here on; where the training stands alone, so do its random numbers.
        torch.manual_seed(trainer.seed)

    def train(self) -> None:
        epochs, steps = self.recipe.training.epochs, self.trainer.steps_per_epoch
        self._resume_or_start()
        with self.trainer.progress.training(self.stage, epochs, steps, len(self.metrics)) as bar:
            try:
                for epoch in range(len(self.metrics), epochs):
                    self._train_epoch(epoch, bar)
                    self._save()
            except KeyboardInterrupt:
                raise StoppedError(
                    f"stopped in epoch {len(self.metrics) + 1} of {epochs} of {self.stage}. "
                    f"The same command goes on from epoch {len(self.metrics) + 1}; its work is in {self.run.directory}."
                ) from None
        if self.fabric.is_global_zero:
            self._finish()

    def _train_epoch(self, epoch: int, bar: Bar) -> None:
        started = time.monotonic()
        for group in self.raw_optimizer.param_groups:
            group["lr"] = lr_at(self.recipe.training, epoch)
        losses = self._steps(epoch, bar)
        entry = {
            "epoch": epoch,
            "loss": float(torch.stack(losses).mean()),
            "accuracy": self._accuracy(),
            **self._sizes(),
            "lr": lr_at(self.recipe.training, epoch),
            "seconds": time.monotonic() - started,
        }
        self.metrics.append(entry)
        bar.epoch(entry)

    def _steps(self, epoch: int, bar: Bar) -> list[Tensor]:
        training = self.recipe.training
        order = epoch_order(
            self.trainer.dataset.info.train,
            training.batch_size,
            self.trainer.steps_per_epoch,
            seed=self.trainer.seed,
            epoch=epoch,
        )
        batches = self.trainer.dataset.train_batches(
            order,
            training.batch_size,
            augment=training.augment,
            seed=self.trainer.seed,
            epoch=epoch,
            rank=self.fabric.global_rank,
            world=self.fabric.world_size,
        )
        self.model.train()
        losses: list[Tensor] = []
        try:
            for images, labels in batches:
                losses.append(train_step(self.fabric, self.model, self.optimizer, images, labels))
                bar.step()
        finally:
            # Looked at once an epoch, so that a GPU never waits; the checkpoint of the epoch before is still good.
            self._require_finite(losses, epoch)
        return losses

    def _require_finite(self, losses: list[Tensor], epoch: int) -> None:
        if not losses:
            return
        bad = torch.nonzero(~torch.isfinite(torch.stack(losses)))
        if len(bad):
            raise AsniError(
                f"the loss of {self.stage} is {float(losses[int(bad[0])])} in epoch {epoch + 1}, step "
                f"{int(bad[0]) + 1}. The checkpoint of the epoch before is kept in {self.run.directory}; "
                "try a lower learning rate (--lr)."
            )

    def _accuracy(self) -> float:
        """Percent of the test images that are recognised, over all processes."""
        batches = self.trainer.dataset.test_batches(
            TEST_BATCH, rank=self.fabric.global_rank, world=self.fabric.world_size
        )
        correct = count_correct(self.model, batches, self.fabric.device)
        total = cast(Tensor, self.fabric.all_reduce(correct, reduce_op="sum"))
        return 100 * int(total) / self.trainer.dataset.info.test

    def _sizes(self) -> dict[str, Any]:
        candidates = sum(weight.numel() for weight in prunable(self.module).values())
        parameters = sum(parameter.numel() for parameter in self.module.parameters())
        pruned = 0 if self.pruner is None else candidates - count(self.pruner.masks)
        return {
            "nonzeros": parameters - pruned,
            "sparsity": pruned / candidates,
            "total_sparsity": pruned / parameters,
        }

    def _resume_or_start(self) -> None:
        checkpoint = self.fabric.broadcast(load_checkpoint(self.run.checkpoint) if self.fabric.is_global_zero else None)
        if checkpoint is None:
            if self.fabric.is_global_zero:
                self.run.start(environment(), self.initial)
            return
        self.metrics = checkpoint["metrics"]
        self.module.load_state_dict(checkpoint["model"])
        self.raw_optimizer.load_state_dict(checkpoint["optimizer"])
        self.fabric.strategy.precision.load_state_dict(checkpoint["precision"])
        if self.pruner is not None:
            self.pruner.load_state_dict(checkpoint["pruner"])
        set_random_state(checkpoint["random"])

    def _save(self) -> None:
        if not self.fabric.is_global_zero:
            return
        state = {
            "metrics": self.metrics,
            "model": self.module.state_dict(),
            "optimizer": self.raw_optimizer.state_dict(),
            "precision": self.fabric.strategy.precision.state_dict(),
            "pruner": None if self.pruner is None else self.pruner.state_dict(),
            "random": random_state(),
        }
        write_atomically(self.run.checkpoint, lambda path: torch.save(state, path))
        self.run.write_metrics(self.metrics)

    def _finish(self) -> None:
        masks = None
        if self.pruner is not None:
            masks = self.pruner.masks
            self.pruner.detach()
        last = self.metrics[-1]
        result = {
            "stage": self.stage,
            "seed": self.trainer.seed,
            "epochs": self.recipe.training.epochs,
            "steps": self.recipe.training.epochs * self.trainer.steps_per_epoch,
            **{key: last[key] for key in ("accuracy", "nonzeros", "sparsity", "total_sparsity")},
            "seconds": sum(entry["seconds"] for entry in self.metrics),
        }
        self.run.write_metrics(self.metrics)
        self.run.finish(self.module.state_dict(), masks, result)


def train_step(
    fabric: Fabric, model: nn.Module, optimizer: torch.optim.Optimizer, images: Tensor, labels: Tensor
) -> Tensor:
    """One step down the gradient of the cross-entropy; the loss before it."""
    images, labels = fabric.to_device((images, labels))
    loss = cross_entropy(model(images), labels)
    optimizer.zero_grad()
    fabric.backward(loss)
    optimizer.step()
    return loss.detach()


def make_optimizer(model: nn.Module, recipe: Recipe) -> torch.optim.Optimizer:
    """The recipe's optimiser, fused: one kernel a step instead of several a parameter."""
    training = recipe.training
    common: dict[str, Any] = {"lr": training.lr, "weight_decay": training.weight_decay, "fused": True}
    match training.optimizer:
        case "sgd":
            return torch.optim.SGD(model.parameters(), momentum=training.momentum, nesterov=training.nesterov, **common)
        case "adam":
            return torch.optim.Adam(model.parameters(), **common)
        case "adamw":
            return torch.optim.AdamW(model.parameters(), **common)


def load_checkpoint(path: Path) -> dict[str, Any] | None:
    return torch.load(path, map_location="cpu", weights_only=True) if path.exists() else None


def random_state() -> dict[str, Any]:
    """Where torch's own random numbers stand, on every device."""
    return {"cpu": torch.get_rng_state(), "cuda": torch.cuda.get_rng_state_all()}


def set_random_state(state: Mapping[str, Any]) -> None:
    torch.set_rng_state(state["cpu"])
    torch.cuda.set_rng_state_all(state["cuda"])


PRECISIONS: dict[str, Literal["32-true", "bf16-mixed", "16-mixed"]] = {
    "fp32": "32-true",
    "bf16": "bf16-mixed",
    "fp16": "16-mixed",
}


def make_fabric(device: str = "auto", devices: int = 1, precision: str = "fp32") -> Fabric:
    """Lightning Fabric, launched: the device, the precision, the processes."""
    torch.backends.cudnn.deterministic = True
    fabric = Fabric(accelerator=device, devices=devices, precision=PRECISIONS[precision])
    fabric.launch()
    return fabric

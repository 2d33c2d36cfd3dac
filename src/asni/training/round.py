"""One round of training: the loop, its checkpoints, and its result."""

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from lightning_fabric import Fabric
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from asni.errors import AsniError, StoppedError
from asni.pruning.finite import not_finite
from asni.pruning.mac_density import MacDensity
from asni.pruning.masks import weight_count
from asni.pruning.pruner import Pruner
from asni.recipes import lr_at
from asni.runs import names
from asni.runs.run import Run
from asni.training.averaging import Average, renew_statistics
from asni.training.environment import environment
from asni.training.evaluation import TEST_BATCH, count_correct, logits_of
from asni.training.kernels import Kernels, Trained
from asni.training.optimizers import make_optimizer
from asni.training.processes import fail_together
from asni.training.progress import Bar

if TYPE_CHECKING:
    from asni.training.trainer import Trainer

_MAY_DIFFER = {names.ENVIRONMENT}
"""A run may resume on another machine."""

MakePruner = Callable[[nn.Module, torch.optim.Optimizer], Pruner | None]
"""Makes a method's pruner for one round, or None for a dense one."""


class Round:
    """The state of one round while it trains."""

    def __init__(
        self,
        trainer: "Trainer",
        run: Run,
        stage: str,
        make_pruner: MakePruner,
        start: Mapping[str, Tensor] | None,
        steps: range,
        notes: Mapping[str, object],
    ):
        self.trainer, self.run, self.stage, self.steps, self.notes = trainer, run, stage, steps, notes
        self.fabric, self.recipe = trainer.fabric, trainer.recipe
        self.training = self.recipe.training_of(stage)
        # The faster memory format for convolutions, on CPUs too; files keep the default format.
        self.module = trainer.network(start).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        scaler = getattr(self.fabric.strategy.precision, "scaler", None)
        self.raw_optimizer = make_optimizer(self.module, self.recipe, fused=scaler is None)
        self.model, self.optimizer = self.fabric.setup(self.module, self.raw_optimizer)
        self.initial = {name: value.detach().clone() for name, value in self.module.state_dict().items()}
        self.mac_density = MacDensity(self.module, (1, *trainer.dataset.info.shape))
        self.pruner = make_pruner(self.module, self.raw_optimizer)
        self.kernels = Kernels(
            trainer.kernels, trainer.accelerate, self._trained(), self.fabric, self._dense_step, self._say
        )
        self.metrics: list[dict[str, Any]] = []
        self.written: dict[str, str] = {}
        self.stamp: tuple[int, int] | None = None

    def train(self) -> None:
        per_epoch = self.trainer.steps_per_epoch
        first, end = self.steps.start // per_epoch, -(-self.steps.stop // per_epoch)
        self._resume_or_start()
        with self.trainer.progress.training(self.stage, end, len(self.steps), self._done(), self._seconds()) as bar:
            try:
                for epoch in range(first + len(self.metrics), end):
                    self._train_epoch(epoch, bar)
                    with fail_together(self.fabric):
                        if self.fabric.is_global_zero:
                            self._save()
            except KeyboardInterrupt:
                here = first + len(self.metrics) + 1
                raise StoppedError(
                    f"stopped in epoch {here} of {end} of {self.stage}. "
                    f"Run the same command to resume in epoch {here}. Its files are in {self.run.directory}."
                ) from None
        self.kernels.ended()
        with fail_together(self.fabric):
            if self.fabric.is_global_zero:
                self._finish()

    def _trained(self) -> Trained:
        share = -(-self.training.batch_size // self.fabric.world_size)
        shape = self.trainer.dataset.info.shape
        return Trained(self.module, self.raw_optimizer, self.pruner, len(self.steps), share, shape)

    def _say(self, line: str) -> None:
        self.trainer.progress.note(self.stage, line)

    def _train_epoch(self, epoch: int, bar: Bar) -> None:
        started = time.monotonic()
        self._seed_drop_out(epoch)
        for group in self.raw_optimizer.param_groups:
            group["lr"] = lr_at(self.training, epoch)
        losses = self._steps(epoch, bar)
        bar.evaluating()
        entry = {
            "epoch": epoch,
            "loss": float(losses.mean()),
            "accuracy": self._accuracy(),
            **self._sizes(),
            "lr": lr_at(self.training, epoch),
            "seconds": time.monotonic() - started,
        }
        self.metrics.append(entry)
        bar.epoch(entry)

    def _seed_drop_out(self, epoch: int) -> None:
        """Seed every epoch and process separately, so that a checkpoint needs no random state."""
        numbers = np.random.SeedSequence((self.trainer.seed, epoch, self.fabric.global_rank))
        torch.manual_seed(int(numbers.generate_state(1, np.uint64)[0]))

    def _steps(self, epoch: int, bar: Bar) -> Tensor:
        """Train one epoch, or the part of it that belongs to the round; returns the loss of each global batch."""
        per_epoch, world = self.trainer.steps_per_epoch, self.fabric.world_size
        start = max(self.steps.start - epoch * per_epoch, 0)
        stop = min(self.steps.stop - epoch * per_epoch, per_epoch)
        batches = self.trainer.batches(epoch, start=start, rank=self.fabric.global_rank, world=world)
        self.model.train()
        losses: list[Tensor] = []
        average = Average(stop - start) if self._averages(epoch) else None
        try:
            for step, (images, labels) in zip(range(start, stop), batches, strict=False):
                weight = len(labels) * world / self.trainer.images_in_step(step)
                losses.append(self.kernels.step(images, labels, weight=weight))
                self._count_skipped_step(epoch * per_epoch + step + 1 - self.steps.start)
                if average is not None and (stop - 1 - step) % average.every == 0 and self._masks_are_final():
                    self.kernels.store()
                    average.add(self.module)
                bar.step()
        except AsniError:
            # If pruning fails, the loss has most likely diverged before.
            self._require_finite(torch.tensor(losses), epoch)
            raise
        self.kernels.store()
        if average is not None:
            self._finish_with(average, epoch)
        # Checked once an epoch, so that a GPU never waits; the checkpoint of the previous epoch is still valid.
        means = cast(Tensor, self.fabric.all_reduce(torch.stack(losses)))
        with fail_together(self.fabric):
            self._require_finite(means, epoch)
            self._require_finite_weights(epoch)
        return means

    def _averages(self, epoch: int) -> bool:
        # A round that ends early gives others their start: the weights of a step, not an average.
        ends = self.steps.stop == self.training.epochs * self.trainer.steps_per_epoch
        return self.training.average_last and ends and epoch + 1 == self.training.epochs

    def _masks_are_final(self) -> bool:
        return self.pruner is None or self.pruner.fixed_steps is None

    def _finish_with(self, average: Average, epoch: int) -> None:
        """Replace the weights by their average; before the last pruning, an average would not be sparse."""
        if not average.write_to(self.module):
            self._say("--average-last changed nothing: the masks change up to the last steps")
            return
        batches = self.trainer.batches(epoch, rank=self.fabric.global_rank, world=self.fabric.world_size)
        renew_statistics(self.module, batches, self.fabric.device)
        self.kernels.load()

    def _dense_step(self, images: Tensor, labels: Tensor, weight: float) -> Tensor:
        return train_step(self.fabric, self.model, self.optimizer, images, labels, weight=weight)

    def _count_skipped_step(self, done: int) -> None:
        """Let the pruner count a step that the gradient scaler skipped: its schedule counts epochs of data."""
        if self.pruner is not None and self.pruner.steps < done:
            self.pruner.stepped()

    def _require_finite(self, losses: Tensor, epoch: int) -> None:
        bad = torch.nonzero(~torch.isfinite(losses))
        if len(bad):
            raise AsniError(
                f"the loss of {self.stage} is {float(losses[int(bad[0])])} in epoch {epoch + 1}, step "
                f"{int(bad[0]) + 1}.{self._kept()} Try a lower learning rate (--lr)."
            )

    def _require_finite_weights(self, epoch: int) -> None:
        """The loss is that before a step, so it does not show that the last step of an epoch diverged."""
        if broken := not_finite(self.module):
            raise AsniError(
                f"{broken[0]} of {self.stage} holds NaN or infinity after epoch {epoch + 1}.{self._kept()} "
                "Try a lower learning rate (--lr)."
            )

    def _kept(self) -> str:
        return f" The checkpoint of the previous epoch is kept in {self.run.directory}." if self.metrics else ""

    def _accuracy(self) -> float:
        """The percentage of test images that are classified correctly, over all processes."""
        self._share_statistics()
        logits = self.kernels.logits or logits_of(self.module, self.fabric.device)
        batches = self.trainer.dataset.test_batches(
            TEST_BATCH, rank=self.fabric.global_rank, world=self.fabric.world_size
        )
        with self.fabric.autocast():
            correct = count_correct(logits, batches, self.fabric.device)
        total = cast(Tensor, self.fabric.all_reduce(correct, reduce_op="sum"))
        return 100 * int(total) / self.trainer.dataset.info.test

    def _share_statistics(self) -> None:
        """Copy batch norm's running statistics from process 0 to all, as DDP does before every step."""
        if self.fabric.world_size > 1:
            for statistics in self.module.buffers():
                torch.distributed.broadcast(statistics, src=0)
            self.kernels.load()

    def _sizes(self) -> dict[str, Any]:
        candidates = weight_count(self.trainer.prunable(self.module))
        parameters = sum(parameter.numel() for parameter in self.module.parameters())
        pruned = 0 if self.pruner is None else sum(int((~mask).sum()) for mask in self.pruner.masks.values())
        return {
            "nonzeros": parameters - pruned,
            "sparsity": pruned / candidates,
            "total_sparsity": pruned / parameters,
            "mac_density": self.mac_density.now(),
        }

    def _resume_or_start(self) -> None:
        checkpoint = None
        with fail_together(self.fabric):
            if self.fabric.is_global_zero:
                checkpoint = self._checkpoint()
                self._write_start(checkpoint)
                self.stamp = self.run.stamp()
        checkpoint = self.fabric.broadcast(checkpoint)
        if checkpoint is None:
            return
        try:
            self._load(checkpoint)
        except Exception as error:
            # A checkpoint of another program or version can raise almost anything.
            raise AsniError(
                f"the checkpoint in {self.run.directory} does not match this training. "
                "Remove that directory to train again."
            ) from error

    def _checkpoint(self) -> dict[str, Any] | None:
        """The newest sound checkpoint; the user is told of newer ones that are not."""
        checkpoint, wrong = self.run.checkpoint()
        for what in wrong:
            self.trainer.progress.note(self.stage, f"{what}; it is not used")
        if wrong and checkpoint is None:
            self.trainer.progress.note(self.stage, "training from the beginning")
        return checkpoint

    def _write_start(self, checkpoint: Mapping[str, Any] | None) -> None:
        """Write the first files of the run, unless they are as they were when the checkpoint was written."""
        earlier = {} if checkpoint is None else checkpoint["files"]
        changed = self.run.changed(earlier)
        if earlier and not changed:
            self.written = earlier
            return
        if changed:
            self.trainer.progress.note(self.stage, f"{', '.join(changed)} damaged or missing; written again")
        self.written = self.run.start(environment(), self.initial, self.notes)
        if earlier and (other := {name for name in earlier if earlier[name] != self.written.get(name)} - _MAY_DIFFER):
            raise AsniError(
                f"{self.run.directory} was started with another {', '.join(sorted(other))}. "
                "Remove that directory to train again."
            )

    def _load(self, checkpoint: Mapping[str, Any]) -> None:
        self.metrics = list(checkpoint["metrics"])
        self.module.load_state_dict(checkpoint["model"])
        self.raw_optimizer.load_state_dict(checkpoint["optimizer"])
        self.fabric.strategy.precision.load_state_dict(checkpoint["precision"])
        if self.pruner is not None:
            self.pruner.load_state_dict(checkpoint["pruner"])
        self.kernels.load_state_dict(checkpoint.get("kernels"), self._done())

    def _save(self) -> None:
        self._require_in_place()
        state = {
            "files": self.written,
            "metrics": self.metrics,
            "model": self.module.state_dict(),
            "optimizer": self.raw_optimizer.state_dict(),
            "precision": self.fabric.strategy.precision.state_dict(),
            "pruner": None if self.pruner is None else self.pruner.state_dict(),
            "kernels": self.kernels.state_dict(),
        }
        self.run.save(self.metrics, state)

    def _require_in_place(self) -> None:
        changed = self.run.changed(self.written)
        if changed or self.run.stamp() != self.stamp:
            raise AsniError(
                f"{self.run.directory} changed during the training: {', '.join(changed or self.written)} removed or "
                "written by another process. Remove that directory, and run the same command again."
            )

    def _done(self) -> int:
        """The steps of the round that are behind it."""
        per_epoch = self.trainer.steps_per_epoch
        return max((self.steps.start // per_epoch + len(self.metrics)) * per_epoch - self.steps.start, 0)

    def _seconds(self) -> float:
        """The time of all epochs so far, also of those before a resume."""
        return float(sum(entry["seconds"] for entry in self.metrics))

    def _met(self) -> dict[str, float]:
        """How the network compares with its budget of time; a training that is done is not lost for it."""
        try:
            return self.trainer.limits.met(self.module, self.pruner)
        except AsniError as error:
            self._say(f"what the network takes could not be measured: {error}")
            return {}

    def _finish(self) -> None:
        self._require_in_place()
        masks, met = None, self._met()
        if self.pruner is not None:
            masks = self.pruner.masks
            self.pruner.detach()
        last = self.metrics[-1]
        result = {
            "stage": self.stage,
            "rounds": self.trainer.rounds_up_to(self.stage),
            "seed": self.trainer.seed,
            "epochs": len(self.metrics),
            "steps": len(self.steps),
            "kernels": "sparse" if self.kernels.sparse_steps else "dense",
            "sparse_steps": self.kernels.sparse_steps,
            **{key: last[key] for key in ("accuracy", "nonzeros", "sparsity", "total_sparsity", "mac_density")},
            "seconds": self._seconds(),
            **met,
        }
        self.run.finish(self.written, self.metrics, self.module.state_dict(), masks, result)


def train_step(
    fabric: Fabric,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    images: Tensor,
    labels: Tensor,
    *,
    weight: float = 1.0,
) -> Tensor:
    """Take one optimiser step on the cross-entropy; returns the loss before it.

    Processes that share a batch average their gradients. `weight` is this process's share of the batch relative to an
    equal share; it makes the average the gradient of the mean loss over the whole batch.
    """
    if not weight:
        # No image is left for this process, but the others wait for it: use a blank image, in eval mode so that it
        # does not change batch-norm statistics. Only the last batch of an epoch can be so short.
        images, labels = images.new_zeros(1, *images.shape[1:]), labels.new_zeros(1)
        model.eval()
    images, labels = fabric.to_device((images.contiguous(memory_format=torch.channels_last), labels))
    loss = cross_entropy(model(images), labels)
    if weight != 1:
        loss = loss * weight
    optimizer.zero_grad()
    fabric.backward(loss)
    optimizer.step()
    if not weight:
        model.train()
    return loss.detach()

"""Trains one seed of one recipe, in as many rounds as a method needs."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn

from asni import datasets, networks
from asni.datasets.order import epoch_order
from asni.errors import AsniError, UsageError
from asni.pruning.layers import prunable
from asni.pruning.mac_density import macs_goal
from asni.pruning.masks import weight_count, weights_to_keep
from asni.recipes.own_code import is_code
from asni.recipes.recipe import AMENABLE_ROUND
from asni.runs.run import Experiment, Run
from asni.training.kernels import Accelerate, Choice
from asni.training.limits import Limits, Stopwatch
from asni.training.optimizers import make_optimizer
from asni.training.processes import fail_together
from asni.training.progress import Progress
from asni.training.round import MakePruner, Round


class Trainer:
    """Trains one seed of one recipe; all its rounds share the initial values and the order of the data."""

    def __init__(
        self,
        experiment: Experiment,
        fabric: Fabric,
        progress: Progress,
        *,
        wait: bool = False,
        accelerate: Accelerate | None = None,
        kernels: Choice = "auto",
        stopwatch: Stopwatch | None = None,
    ):
        """If another process is training the same round, `wait` for it instead of raising an error.

        `accelerate` makes sparse kernels for networks with fixed masks, and `kernels` says whether to use them.
        `stopwatch` measures networks for budgets of time.
        """
        self.experiment, self.recipe, self.seed = experiment, experiment.recipe, experiment.seed
        self.accelerate, self.kernels = accelerate, kernels
        self.fabric, self.progress, self.wait = fabric, progress, wait
        training = self.recipe.training
        if training.threads is not None:
            torch.set_num_threads(training.threads)
        with fail_together(fabric), progress.display.status(f"Loading {self.recipe.dataset}"):
            self.dataset = datasets.load(self.recipe.dataset, self.recipe.dataset_options)
            # Known before the first round: reading own data may fail.
            _ = experiment.data
        self.steps_per_epoch = self.recipe.steps_per_epoch(self.dataset.info.train)
        self.limits = Limits(
            self.recipe.pruning, self.dataset.info.shape, stopwatch, fabric, experiment.root / "layer-times"
        )
        if training.batch_size < fabric.world_size:
            raise UsageError(
                f"batch_size = {training.batch_size} is too small for {fabric.world_size} processes: "
                "each needs at least one image per step."
            )
        self.steps = self.steps_of("")
        self.method = ""
        self.rounds: dict[str, Run] = {}
        self._trained_here: set[str] = set()
        with fail_together(fabric):
            # Known from the start, so that what is impossible is refused before anything is trained.
            weights = self.prunable(model := self.network())
            if is_code(training.optimizer):
                make_optimizer(model, self.recipe)
            self.sparsity = self.recipe.schedule(weight_count(weights)).final
            self.keep = weights_to_keep(weights, self.sparsity, self.recipe.pruning.floor)
            if (macs := self.recipe.pruning.macs) is not None:
                example = (1, *self.dataset.info.shape)
                macs_goal(model, weights, self.keep, example, macs, self.recipe.pruning.floor)

    def steps_of(self, stage: str) -> range:
        """All steps of a round."""
        return range(self.recipe.training_of(stage).epochs * self.steps_per_epoch)

    def begin(self, method: str) -> None:
        """Start a method: the rounds that follow belong to it, or to a method that it needs."""
        self.method = method
        self.rounds.clear()

    def network(self, state: Mapping[str, Tensor] | None = None, *, seed: int | None = None) -> nn.Module:
        """Build the recipe's network with the seed's initial values, those of another `seed`, or those of `state`."""
        info = self.dataset.info
        torch.manual_seed(self.seed if seed is None else seed)
        model = networks.build(self.recipe.network, info.shape, info.classes, self.recipe.network_options)
        networks.check_output(model, info.shape, info.classes)
        if state is not None:
            model.load_state_dict(state)
        return model

    def prunable(self, model: nn.Module) -> dict[str, Tensor]:
        """The prunable weights according to the recipe."""
        return prunable(model, **self.recipe.pruning.layers)

    def images_in_step(self, step: int) -> int:
        """The size of the global batch; only the last batch of a single pass over the data may be smaller."""
        size, images = self.recipe.training.batch_size, self.dataset.info.train
        return min(size, images - step * size) if self.steps_per_epoch == -(-images // size) else size

    def batches(self, epoch: int, *, start: int = 0, rank: int = 0, world: int = 1) -> Iterator[tuple[Tensor, Tensor]]:
        """The training images and labels of one epoch, starting at its step `start`."""
        training = self.recipe.training
        order = epoch_order(
            self.dataset.info.train, training.batch_size, self.steps_per_epoch, seed=self.seed, epoch=epoch
        )
        return self.dataset.train_batches(
            order,
            training.batch_size,
            augment=training.augment,
            seed=self.seed,
            epoch=epoch,
            start=start,
            rank=rank,
            world=world,
        )

    def train(
        self,
        stage: str,
        make_pruner: MakePruner,
        *,
        method: str | None = None,
        start: Mapping[str, Tensor] | None = None,
        steps: range | None = None,
        settings: Mapping[str, Any] | None = None,
        notes: Mapping[str, object] | None = None,
    ) -> Run:
        """Train one round and return its run; a finished round is returned without calling `make_pruner`.

        `stage` is the name of the round. `method` is the method it belongs to, unless it is the last round of the
        method `stage`. `start` replaces the seed's initial values. `steps` restricts the training to these steps, with
        their learning rates and data. A finished run with other `settings` is an error. `notes` are JSON files to save
        with the run, by name.
        """
        steps = steps or self.steps_of(stage)
        run = self.experiment.run(stage, method=method, settings=settings or {})
        with ExitStack() as until_done:
            finished = False
            with fail_together(self.fabric):
                if self.fabric.is_global_zero and not (finished := run.finished):
                    until_done.enter_context(run.locked(wait=self.wait))
                    # Another process may have finished it in between.
                    finished = run.finished or self._copied_in_full_length(run, stage)
                if finished:
                    run.require_sound()
                    run.remove_checkpoints()
            if not self.fabric.broadcast(finished):
                with self.progress.warnings(stage):
                    with self.progress.display.status(f"Preparing {stage}"):
                        trained = Round(self, run, stage, make_pruner, start, steps, notes or {})
                    trained.train()
                self._trained_here.add(stage)
            elif stage not in self._trained_here:
                self.progress.already_done(stage, run.directory)
        self.rounds[stage] = run
        return run

    def _copied_in_full_length(self, run: Run, stage: str) -> bool:
        """Copy a round that `amenable_epochs` does not change, if it was trained where nothing is shortened."""
        recipe = self.recipe.in_full_length
        if stage == AMENABLE_ROUND or recipe == self.recipe:
            return False
        request = {**run.request, "recipe": recipe.model_dump()}
        other = Run(replace(self.experiment, recipe=recipe).home / stage, request)
        try:
            finished = other.finished
        except AsniError:
            # Another training is in that directory; this one does not need it.
            return False
        if finished:
            run.copy(other, other.result, {})
            self.progress.note(stage, f"copied from {other.directory}")
            self._trained_here.add(stage)
        return finished

    def rounds_up_to(self, stage: str) -> list[str]:
        """All rounds of the method if `stage` is its last one, else only `stage`."""
        return [*self.rounds, stage] if stage == self.method else [stage]

    def adopt(self, stage: str, found: str, settings: Mapping[str, Any], notes: Mapping[str, object]) -> Run:
        """Copy the finished round `found` to the round `stage`, so that the result of a search is not trained again."""
        run, original = self.experiment.run(stage, settings=settings), self.rounds.pop(found)
        with fail_together(self.fabric):
            if self.fabric.is_global_zero and not run.finished:
                with run.locked(wait=self.wait):
                    # Another process may have finished it in between.
                    if not run.finished:
                        result = {**original.result, "stage": stage, "rounds": self.rounds_up_to(stage)}
                        run.copy(original, result, notes)
            if self.fabric.is_global_zero:
                run.require_sound()
        self.rounds[stage] = run
        return run

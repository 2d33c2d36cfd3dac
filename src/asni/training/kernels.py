"""Which kernels take the steps of a round: torch's, or sparse ones as long as the masks stay as they are."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from time import perf_counter
from typing import Any, Literal, Protocol

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn

from asni.errors import AsniError
from asni.pruning.masks import Masks
from asni.pruning.pruner import Pruner
from asni.training.processes import PRECISIONS, gathered
from asni.training.trial import Trial

Choice = Literal["auto", "sparse", "dense"]

SAME_LOGITS = 1e-3
"""How far apart two ways to evaluate a network may be, relative to the largest logit: more than rounding."""


class Stepper(Protocol):
    """Trains the living weights of a network with fixed masks, on values of its own.

    It is made with the values of the model and the optimiser. `store` and then `load` must not change a bit, and one
    that is made anew from stored values must continue with the same bits: what it computes follows from the masks, the
    shapes and the number of threads. Random numbers come from torch's default generator.
    """

    @property
    def about(self) -> str:
        """What it is, for a line of the progress: "sparse kernels for 12 of 13 layers"."""

    @property
    def predicted(self) -> float:
        """How many times as fast as dense steps its own should be; from shapes and densities alone, without timing."""

    def step(self, images: Tensor, labels: Tensor, *, weight: float) -> Tensor:
        """Take one optimiser step, as `train_step` does; returns the loss before it, times `weight`, without a shape.

        Processes that share a batch average their gradients. One that has no image gets none, and a weight of 0.
        """

    def logits(self, images: Tensor) -> Tensor:
        """The network in evaluation mode, on any number of images."""

    def store(self) -> None:
        """Write all values back into the model and the optimiser, in their own form."""

    def load(self) -> None:
        """Read all values from the model and the optimiser, which have changed."""


class Accelerate(Protocol):
    """Makes a stepper; what it cannot train is an `AsniError`, whose message says why in one line."""

    def __call__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        masks: Mapping[str, Tensor],
        *,
        batch_size: int,
        shape: tuple[int, ...],
        previous: Any = None,
    ) -> Stepper:
        """For steps on at most `batch_size` images of a shape.

        Model and optimiser stay as they are. `previous` is a stepper that it made for other masks of the same network,
        and which is not used again.
        """


@dataclass(frozen=True)
class Trained:
    """What is trained in a round of so many steps, on at most so many images of a shape in each."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    pruner: Pruner | None
    steps: int
    batch_size: int
    shape: tuple[int, ...]

    @property
    def work(self) -> float:
        """At least so many multiplications, in each of the three passes of its steps."""
        return float(sum(each.numel() for each in self.model.parameters())) * self.batch_size * self.steps


class Kernels:
    """Takes the steps of a round, and tells in one line with which kernels.

    The choice follows from the masks and a short timing. It is part of a checkpoint, so that a resumed round continues
    as it would have. Processes that train together choose together.
    """

    def __init__(
        self,
        asked: Choice,
        accelerate: Accelerate | None,
        trained: Trained,
        fabric: Fabric,
        dense_step: Callable[[Tensor, Tensor, float], Tensor],
        say: Callable[[str], None],
    ):
        self.asked, self.accelerate, self.trained, self.fabric = asked, accelerate, trained, fabric
        self.dense_step, self.say = dense_step, say
        self.taken = self.sparse_steps = 0
        self.is_sparse = False
        self._stepper: Stepper | None = None
        self._evaluates: bool | None = None
        """Whether the stepper evaluates like the model, once that is known."""
        self._masks: Masks = {}
        self._predicted = 0.0
        self._left: int | None = 1
        """For how many steps the choice holds; None: for all."""
        self._trial = Trial(passed=asked == "sparse")
        self._told = ""
        """Of which kernels the user was told last."""
        why = _hindrance(fabric, trained.pruner)
        if accelerate is None or asked == "dense" or why:
            self._stay_dense(why if accelerate and asked == "sparse" else "")
            self.asked = "dense"

    def step(self, images: Tensor, labels: Tensor, *, weight: float) -> Tensor:
        """Take one step of the training; returns the loss before it, times `weight`."""
        if self.is_sparse and self._stepper is None:
            self._resume()
        loss = (self._sparse_step if self.is_sparse else self._dense_step)(images, labels, weight)
        self.taken += 1
        if self._left is not None:
            self._left -= 1
            if self._left == 0:
                self._choose()
        return loss

    def store(self) -> None:
        """Write all values into the model and the optimiser: before anything else looks at them."""
        if self.is_sparse and self._stepper is not None:
            self._stepper.store()

    def load(self) -> None:
        """Read all values from the model and the optimiser, after something else has written to them."""
        if self.is_sparse and self._stepper is not None:
            self._stepper.load()

    @property
    def logits(self) -> Callable[[Tensor], Tensor] | None:
        """The network in evaluation mode, if it is not the model that evaluates it."""
        return self._stepper.logits if self.is_sparse and self._evaluates and self._stepper is not None else None

    def ended(self) -> None:
        """Tell a user who asked for sparse kernels that no step was taken with them."""
        if self.asked == "sparse" and not self.sparse_steps:
            self._tell("dense kernels: no step had pruned weights and masks that stay as they are")

    def state_dict(self) -> dict[str, Any]:
        return {
            "asked": self.asked,
            "sparse": self.is_sparse,
            "left": self._left,
            "sparse_steps": self.sparse_steps,
            "trial": asdict(self._trial),
        }

    def load_state_dict(self, state: Mapping[str, Any] | None, taken: int) -> None:
        """Continue after so many steps; a choice that was made for another wish of the user is made again."""
        self.taken = taken
        if state is None:
            return
        self.sparse_steps = state["sparse_steps"]
        if state["asked"] == self.asked != "dense":
            self.is_sparse, self._left, self._trial = state["sparse"], state["left"], Trial(**state["trial"])

    def _dense_step(self, images: Tensor, labels: Tensor, weight: float) -> Tensor:
        started = perf_counter()
        loss = self.dense_step(images, labels, weight)
        self._trial.dense_step(perf_counter() - started)
        return loss

    def _sparse_step(self, images: Tensor, labels: Tensor, weight: float) -> Tensor:
        assert self._stepper is not None
        assert self.trained.pruner is not None
        started = perf_counter()
        loss = self._stepper.step(images, labels, weight=weight)
        self.sparse_steps += 1
        if self._trial.sparse_step(perf_counter() - started):
            self._judge()
        if self._left == 1:
            # The pruner looks at the weights after this step.
            self.store()
        self.trained.pruner.stepped()
        return loss

    def _choose(self) -> None:
        """Choose the kernels of the coming steps, up to the next change of the masks."""
        pruner = self.trained.pruner
        assert pruner is not None
        fixed = pruner.fixed_steps
        if fixed == 0 or not self._trial.knows_dense:
            self.is_sparse, self._left = False, 1
            return
        self._left, to_come = fixed, self.trained.steps - self.taken
        ahead = to_come if fixed is None else min(fixed, to_come)
        if self.asked == "auto":
            may_pay = self._trial.may_pay(pruner.sparsity, ahead, self.trained.work, at_rest=fixed is None)
        else:
            may_pay = pruner.sparsity > 0 and ahead > 0
        self.is_sparse = may_pay and self._has_stepper(pruner.masks) and self._is_wanted()

    def _has_stepper(self, masks: Masks) -> bool:
        """Whether there is a stepper with these masks and the present values, now that one is wanted."""
        if self._stepper is None or not _same(masks, self._masks):
            return self._make(masks)
        if not self.is_sparse:
            self._stepper.load()
        return True

    def _is_wanted(self) -> bool:
        if self.asked == "sparse" or self._predicted >= self._trial.wanted:
            return True
        if self._left is None:
            self._stay_dense(f"sparse ones would be {self._predicted:.1f}x as fast")
        return False

    def _make(self, masks: Masks) -> bool:
        """Make a stepper for these masks; where one process cannot, all stay dense and tell why."""
        assert self.accelerate is not None
        trained, started, why, predicted = self.trained, perf_counter(), "", 0.0
        try:
            # A resumed training makes one where an uninterrupted one does not: both must draw the same numbers.
            with torch.random.fork_rng(devices=[]):
                self._stepper = self.accelerate(
                    trained.model,
                    trained.optimizer,
                    masks,
                    batch_size=trained.batch_size,
                    shape=trained.shape,
                    previous=self._stepper,
                )
                if self._evaluates is None:
                    self._evaluates = self._is_like_the_model(self._stepper)
            predicted = self._stepper.predicted
        except AsniError as error:
            why = str(error)
        except MemoryError:
            why = "sparse ones need more memory than there is"
        everywhere = gathered(self.fabric, (why, predicted))
        if whys := [each for each, _ in everywhere if each]:
            self._stay_dense(whys[0])
            return False
        self._masks, self._predicted = masks, everywhere[0][1]
        self._trial.made_for(self._left, perf_counter() - started)
        return True

    @torch.no_grad()
    def _is_like_the_model(self, stepper: Stepper) -> bool:
        """Whether both give the same results in evaluation mode, in which a forward may do something else."""
        model = self.trained.model
        images = torch.rand(2, *self.trained.shape)
        model.eval()
        expected = model(images)
        model.train()
        apart = (stepper.logits(images) - expected).abs().max()
        return bool(apart <= SAME_LOGITS * expected.abs().max())

    def _resume(self) -> None:
        """Make the stepper that the checkpoint was written with."""
        assert self.trained.pruner is not None
        trial = asdict(self._trial)
        if self._make(self.trained.pruner.masks):
            assert self._stepper is not None
            self._trial = Trial(**trial)
            self._tell(self._stepper.about)

    def _judge(self) -> None:
        """The first sparse steps are timed: tell how fast they are, or return to dense ones if they are not faster."""
        assert self._stepper is not None
        self._trial = gathered(self.fabric, self._trial)[0]
        if self.asked == "auto" and self._trial.objects(self._predicted):
            self.store()
            self.is_sparse = False
            if self._left is None:
                self._stay_dense(f"sparse ones are {self._trial.gain:.1f}x as fast here")
        else:
            self._tell(f"{self._stepper.about}, steps {self._trial.gain:.1f}x as fast")

    def _stay_dense(self, why: str) -> None:
        """Take dense steps to the end of the round."""
        self._stepper, self.is_sparse, self._left = None, False, None
        if why:
            self._tell(f"dense kernels: {why}")

    def _tell(self, line: str) -> None:
        kind = line.partition(" ")[0]
        if kind != self._told:
            self.say(line)
        self._told = kind


def _hindrance(fabric: Fabric, pruner: Pruner | None) -> str:
    """Why sparse kernels are out of the question, whatever the masks are."""
    if fabric.device.type != "cpu":
        return f"sparse ones run on CPUs, not on {fabric.device.type}"
    if fabric.strategy.precision.precision != PRECISIONS["fp32"]:
        return "sparse ones compute in fp32"
    return "nothing is pruned" if pruner is None else ""


def _same(first: Mapping[str, Tensor], second: Mapping[str, Tensor]) -> bool:
    return first.keys() == second.keys() and all(torch.equal(mask, second[name]) for name, mask in first.items())

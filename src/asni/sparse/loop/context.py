"""A user's own loop on the nonzeros: inside a block, kernels run the model's forward and the optimiser's steps."""

from typing import Any, Self

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from asni.errors import AsniError, UsageError
from asni.pruning.foreign_steps import pruners_of
from asni.pruning.hold import Hold
from asni.pruning.messages import say
from asni.pruning.optimizers import unwrapped
from asni.pruning.pruner import Pruner
from asni.sparse.loop.native_steps import NativeSteps
from asni.sparse.loop.passes import Passes
from asni.sparse.loop.preparing import NotNowError, Preparing
from asni.sparse.loop.surroundings import images_of, is_plain_training
from asni.sparse.optimizers.in_place import InPlace

_CALL = "_compiled_call_impl"
"""What nn.Module calls instead of its hooks and forward, if it is set; torch leaves it out of copies and files."""


def sparse_training(model: nn.Module, optimizer: Optimizer) -> "SparseTraining":
    """Train a sparse network in a loop of your own, on a CPU, at the price of its nonzeros.

    The loop stays as it is. Model and optimiser keep their form, and hold the current values at any time.

    The masks are those of the pruner on this optimiser, such as `asni.Hold` or `asni.ASNI`. If there is none, the zeros
    in the prunable weights stay zero. Torch runs evaluation, the pruner's first step, and steps in which the pruner
    needs the gradients of pruned weights. It also trains what the kernels cannot, and one line says why.

    >>> import asni
    >>> model = nn.Sequential(nn.Linear(64, 100), nn.ReLU(), nn.Linear(100, 10))
    >>> optimizer = torch.optim.Adam(model.parameters())
    >>> hold = asni.Hold(model, optimizer, asni.keep_largest(asni.prunable(model), keep=500))
    >>> with asni.sparse_training(model, optimizer) as training:
    ...     for step in range(10):
    ...         loss = model(torch.rand(60, 64)).square().mean()
    ...         optimizer.zero_grad(); loss.backward(); optimizer.step()
    >>> training, hold.alive
    (SparseTraining(9 passes by sparse kernels, 1 by torch), 500)
    """
    return SparseTraining(model, optimizer)


class SparseTraining:
    """The block of `sparse_training`."""

    def __init__(self, model: nn.Module, optimizer: Optimizer) -> None:
        if not isinstance(model, nn.Module):
            raise UsageError(f"model must be a torch.nn.Module, not {type(model).__name__}.")
        self.model = model.module if isinstance(model, DistributedDataParallel) else model
        self.optimizer = unwrapped(optimizer)
        self.sparse_passes = self.dense_passes = 0
        self._preparing = Preparing(self.model, self.optimizer)
        self._hold: Hold | None = None
        self._is_preparing = False
        self._why, self._told = "no pass was one of a training in float32 on the CPU", set[str]()

    def __repr__(self) -> str:
        return f"SparseTraining({self.sparse_passes:,} passes by sparse kernels, {self.dense_passes:,} by torch)"

    def __enter__(self) -> Self:
        self._before = vars(self.model).get(_CALL)
        if isinstance(self._before, _Call):
            raise UsageError("this model is already in a block of sparse_training.")
        self._steps = NativeSteps(self.optimizer, self._optimizer)
        vars(self.model)[_CALL] = _Call(self)
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        # Unless the model was compiled inside the block.
        if isinstance(vars(self.model)[_CALL], _Call):
            del vars(self.model)[_CALL]
            vars(self.model).update({} if self._before is None else {_CALL: self._before})
        self._steps.remove()
        if self._hold is not None:
            self._hold.detach()
        if error is None and not self.sparse_passes and not self._told:
            self._tell(self._why)
        self._preparing.close()

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """The model's output, by the kernels if this is a pass of a training that they can run."""
        images = images_of(args, kwargs)
        if images is None or self._is_preparing or not self.model.training or not is_plain_training():
            return self._plainly(*args, **kwargs)
        passes = self._passes_for(images)
        if passes is None:
            self.dense_passes += 1
            return self._plainly(*args, **kwargs)
        self.sparse_passes += 1
        return passes.run(images)

    def _plainly(self, *args: Any, **kwargs: Any) -> Any:
        call = self._before or self.model._call_impl
        return call(*args, **kwargs)

    def _passes_for(self, images: torch.Tensor) -> Passes | None:
        self._is_preparing = True
        try:
            pruners = self._pruners() or self._held()
            self._steps.stand_between()
            return self._preparing.passes_for(images, pruners)
        except NotNowError as reason:
            self._why = str(reason)
        except AsniError as reason:
            self._tell(str(reason))
        except MemoryError:
            self._tell("sparse ones need more memory than there is")
        finally:
            self._is_preparing = False
        return None

    def _optimizer(self) -> InPlace | None:
        return self._preparing.optimizer_for(self._pruners())

    def _pruners(self) -> list[Pruner]:
        """The pruners on the optimiser that hold weights of the model, in an order that stays."""
        own = {id(parameter) for parameter in self.model.parameters()}
        found = [each for each in pruners_of(self.optimizer) if any(id(held) in own for held in each.weights.values())]
        return sorted(found, key=id)

    def _held(self) -> list[Pruner]:
        """A pruner that keeps the zeros, as nobody else does."""
        self._hold = Hold(self.model, self.optimizer)
        return [self._hold]

    def _tell(self, why: str) -> None:
        if why not in self._told:
            self._told.add(why)
            say(f"sparse_training runs dense kernels: {why.rstrip('.')}.")


class _Call:
    """Stands in the model for the time of a block; in copies and files of the model there is nothing in its place."""

    def __init__(self, training: SparseTraining) -> None:
        self._training = training

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._training.call(*args, **kwargs)

    def __deepcopy__(self, memo: object) -> None:
        return None

    def __reduce__(self) -> tuple[Any, ...]:
        return type(None), ()

"""Takes whole training steps on the nonzeros: forward, loss, backward and optimiser in one call."""

from collections.abc import Mapping

import torch
import torch.distributed as dist
from torch import Tensor, nn

from asni.sparse.network.batches import require_running_statistics
from asni.sparse.network.network import Network
from asni.sparse.network.prediction import predicted_gain
from asni.sparse.network.threads import useful_threads
from asni.sparse.optimizers.nonzeros import Nonzeros
from asni.sparse.steps import Steps
from asni.sparse.tracing.tracing import traced


class Stepper:
    """Trains a model with fixed masks by cross entropy, on values of its own between `load` and `store`.

    Processes that train together average their gradients.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        masks: Mapping[str, Tensor],
        *,
        batch_size: int,
        shape: tuple[int, ...],
        previous: "Stepper | None" = None,
    ) -> None:
        """`previous` was made for the same model and other masks, and is of no use afterwards."""
        self.steps: Steps = traced(model, torch.zeros(2, *shape)) if previous is None else previous.given_up()
        require_running_statistics(self.steps)
        self.world = dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1
        threads = useful_threads(self.steps, model, masks, batch_size)
        self.network = Network(self.steps, model, masks, items=batch_size, threads=threads)
        self.optimizer = Nonzeros(self.network, optimizer)
        self.load()

    def given_up(self) -> Steps:
        """The steps of the model; the memory of this stepper is for the next one."""
        del self.network, self.optimizer
        return self.steps

    @property
    def about(self) -> str:
        """What it does, in a few words."""
        plans = [site.plan for site in self.network.sites.values()]
        sparse = sum(plan.forward.kernel == "sparse" for plan in plans)
        return f"sparse kernels for {sparse} of {len(plans)} layers"

    @property
    def predicted(self) -> float:
        """How many times as fast as dense ones its steps should be."""
        return predicted_gain(self.network)

    def step(self, images: Tensor, labels: Tensor, *, weight: float) -> Tensor:
        """Take one step; returns the loss before it, times `weight`."""
        network = self.network
        if self.world == 1:
            return torch.scalar_tensor(
                network.train(images.contiguous().numpy(), labels.numpy(), weight, self.optimizer)
            )
        loss = network.train(images.contiguous().numpy(), labels.numpy(), weight) if weight else 0.0
        self._average(has_gradient=bool(weight))
        self.optimizer.step()
        return torch.scalar_tensor(loss)

    def _average(self, *, has_gradient: bool) -> None:
        """Make the first row of the gradient the mean of all processes, and the others zero."""
        gradient = torch.from_numpy(self.network.gradient)
        if has_gradient:
            gradient[0] = gradient.sum(0)
        else:
            gradient.zero_()
        gradient[1:] = 0
        dist.all_reduce(gradient[0])
        gradient[0] /= self.world

    def logits(self, images: Tensor) -> Tensor:
        """Evaluate any number of images."""
        return torch.from_numpy(self.network.forward(images.contiguous().numpy(), training=False))

    def load(self) -> None:
        """Take all values from the model and the optimiser."""
        self.network.load()
        self.optimizer.load()

    def store(self) -> None:
        """Give all values to the model and the optimiser, in their own form."""
        self.network.store()
        self.optimizer.store()

"""Steps of torch's optimisers by the native core, on the tensors in which torch keeps weights, gradients and state."""

import numpy as np
import torch
from torch import Tensor
from torch.autograd.graph import increment_version
from torch.optim import Optimizer

from asni.engine.graph import Array
from asni.engine.program.team import Team
from asni.engine.program.types import PARAMETERS, address
from asni.sparse.network.vector import Vector
from asni.sparse.optimizers.nonzeros import NUMBERS_PER_THREAD
from asni.sparse.optimizers.operations import operations_of, run
from asni.sparse.optimizers.torch_optimizers import SETTINGS, fill, keep_progress, kind_of, progress_of

DENSITY_OF_INDEX = 1 / 30
"""Below this, going from nonzero to nonzero is faster than going through all weights."""

Averages = tuple[Tensor | None, Tensor | None]


class InPlace:
    """Steps the parameters of a vector; weights that are zero and have no gradient stay zero."""

    def __init__(self, optimizer: Optimizer, vector: Vector, threads: int) -> None:
        self.optimizer = optimizer
        self._places = {
            id(parameter): _Place(parameter, vector.slices[name].index) for name, parameter in vector.parameters.items()
        }
        count = sum(place.operands.count for place in self._places.values())
        self._team = Team(min(threads, 1 + count // NUMBERS_PER_THREAD))

    @torch.no_grad()
    def step(self) -> dict[Tensor, Tensor]:
        """Step the parameters that the kernel can step, and return them with their gradients."""
        stepped: dict[Tensor, Tensor] = {}
        operands = []
        told: dict[tuple[int, int, bool], Array] = {}
        for number, group in enumerate(self.optimizer.param_groups):
            for parameter in group["params"]:
                place, gradient = self._places.get(id(parameter)), parameter.grad
                if place is None or gradient is None or not place.fits(parameter, gradient, self._averages(parameter)):
                    continue
                progress = progress_of(self.optimizer, parameter)
                key = (number, progress.steps, progress.has_buffer)
                if key not in told:
                    told[key] = np.zeros(SETTINGS)
                    fill(told[key], group, progress)
                progress.advance(group)
                keep_progress(self.optimizer, parameter, group, progress)
                place.point_to(parameter, gradient, self._averages(parameter))
                place.operands.kind, place.operands.settings = kind_of(self.optimizer, group), address(told[key])
                stepped[parameter] = gradient
                operands.append(place.operands)
        if stepped:
            run(operations_of("optimise", operands), self._team)
            increment_version(list(stepped))
        return stepped

    def _averages(self, parameter: Tensor) -> Averages:
        """The momentum buffer, or Adam's averages of the gradient and of its square, as far as they are there."""
        state = self.optimizer.state.get(parameter, {})
        return state.get("exp_avg", state.get("momentum_buffer")), state.get("exp_avg_sq")


class _Place:
    """What the kernel is told of one parameter, and the form that its tensors must have."""

    def __init__(self, parameter: Tensor, index: Array | None) -> None:
        self._form = parameter.shape, parameter.stride()
        self._index: Array | None = None
        if index is not None and len(index) < DENSITY_OF_INDEX * parameter.numel():
            # In the order of memory, whatever the order in which other kernels want the nonzeros.
            self._index = np.sort(index)
        count = parameter.numel() if self._index is None else len(self._index)
        self.operands = PARAMETERS["optimise"](rows=1, count=count, index=address(self._index))

    def fits(self, parameter: Tensor, gradient: Tensor, averages: Averages) -> bool:
        """Whether all tensors are in the form of the parameter."""
        return all(
            each.layout is torch.strided and each.dtype is torch.float32 and (each.shape, each.stride()) == self._form
            for each in (parameter, gradient, *averages)
            if each is not None
        )

    def point_to(self, parameter: Tensor, gradient: Tensor, averages: Averages) -> None:
        # In every step: a tensor that is shared between processes moves, and stays the same object.
        self.operands.weights, self.operands.gradient = parameter.data_ptr(), gradient.data_ptr()
        self.operands.first, self.operands.second = (each if each is None else each.data_ptr() for each in averages)

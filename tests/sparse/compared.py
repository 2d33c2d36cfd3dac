"""Compare a step of a network with that of PyTorch in float64."""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import torch
from torch import nn

from asni.engine import native
from asni.engine.graph import Array
from asni.engine.program.layouts import Machine
from asni.sparse.network.network import Network
from asni.sparse.steps import Steps
from tests.engine.native_programs import machine_of
from tests.sparse.exact_gradients import Found, gradients_of
from tests.sparse.kernel_calls import Call, Map, run
from tests.sparse.random_networks import Drawn

LEAST_MARGIN = 1e-5
"""Nearer to a kink, rounding may decide on which side a number is."""


@contextmanager
def networks_on(isa: str) -> Iterator[Machine]:
    """Networks that are made meanwhile run on an instruction set."""
    core, chosen = native._once()
    with machine_of(isa) as machine:
        native._loaded = core, replace(chosen, isa=isa, lanes=machine.lanes)
        try:
            yield machine
        finally:
            native._loaded = core, chosen


def gradient_in(network: Network, name: str) -> Array:
    """The gradient of a parameter in its own shape, zero where it is pruned."""
    where, parameter = network.slices[name], network.vector.parameters[name]
    numbers = torch.from_numpy(network.gradient.sum(0)[where.start : where.stop])
    memory = torch.zeros(parameter.numel())
    memory[slice(None) if where.index is None else torch.from_numpy(where.index)] = numbers
    found: Array = torch.as_strided(memory, parameter.shape, parameter.stride()).numpy()
    return found


def kept_by(network: Network, items: int) -> dict[str, Array]:
    """What each dropout multiplied by in the last step: the kernel tells, given ones."""
    found = {}
    for number, step in enumerate(network.steps.steps):
        if step.kind == "drop_out":
            shape = (items, *network.steps.shapes[step.output][1:])
            maps = {"x": Map(np.ones(shape, np.float32)), "y": Map(np.full(shape, np.nan, np.float32))}
            size = dict(zip(("channels", "rows", "columns"), shape[1:], strict=True))
            chance = {"probability": step.settings["probability"], "seed": network._drafter.seed, "salt": number}
            found[step.output] = run(network.machine, maps, Call("drop_out", {"x": "x", "y": "y"}, size | chance))["y"]
    return found


def check_step(drawn: Drawn, network: Network, scale: float) -> bool:
    """Train one step; loss, gradients and statistics are those of PyTorch. False: too near to a kink to tell."""
    before = copy.deepcopy(drawn.model)
    loss = network.train(drawn.images, drawn.labels, scale)
    arguments = (drawn.steps, before, drawn.images, drawn.labels)
    kept = kept_by(network, len(drawn.images))
    exact = gradients_of(*arguments, kept=kept, scale=scale)
    if exact.margin < LEAST_MARGIN:
        return False
    single = gradients_of(*arguments, kept=kept, scale=scale, dtype=torch.float32)
    assert abs(loss - exact.loss) <= 1e-5 * max(1.0, abs(exact.loss))
    check_gradients(network, drawn, exact, single)
    for name, buffer in drawn.model.named_buffers():
        _check(name, buffer.numpy(), exact.buffers[name], single.buffers[name], 1e-5)
    return True


def check_gradients(network: Network, drawn: Drawn, exact: Found, single: Found) -> None:
    for name in network.slices:
        mask = drawn.masks[name].numpy() if name in drawn.masks else 1
        theirs, rounded = (each.gradients[name] * mask for each in (exact, single))
        _check(name, gradient_in(network, name), theirs, rounded, 1e-6 * exact.terms)


def _check(name: str, found: Array, exact: Array, single: Array, floor: float) -> None:
    """As near to float64 as 1e-5, or as PyTorch in float32 comes where numbers cancel each other."""
    error, theirs, size = (float(np.linalg.norm(each)) for each in (found - exact, single - exact, exact))
    assert error <= max(1e-5 * size, 10 * theirs, floor), f"{name}: {error} beside {size}"


def drawn_for(steps: Steps, model: nn.Module, images: Array, labels: Array) -> Drawn:
    """A network of the user, whose zeros are pruned."""
    masks = {name: each.detach() != 0 for name, each in model.named_parameters() if each.ndim > 1}
    return Drawn(steps, model, masks, images, labels)

"""A model in training mode as a program of torch.export, and a look at what a program does not tell.

The program has neither the gradients of a user's own functions nor the hooks on them, and it takes for granted that a
batch has at least two items. So the model also runs, on one item and on two.
"""

import random
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import BackwardCFunction
from torch.export import Dim, ExportedProgram
from torch.nn.modules.batchnorm import _BatchNorm

from asni.engine.frontends.torch_program import Calls, quiet, restored
from asni.errors import shown
from asni.sparse.steps import UnsupportedError


@contextmanager
def unnoticed(model: nn.Module) -> Iterator[None]:
    """Work on copies of the buffers; afterwards the model and all random numbers are as before."""
    drawn, drawn_by_numpy = random.getstate(), np.random.get_state()
    try:
        with restored(model), torch.random.fork_rng(devices=[]), torch.enable_grad():
            _copy_buffers(model)
            yield
    finally:
        random.setstate(drawn)
        np.random.set_state(drawn_by_numpy)


def _copy_buffers(model: nn.Module) -> None:
    copies: dict[Tensor, Tensor] = {}
    for module in model.modules():
        for name, buffer in module._buffers.items():
            if buffer is not None:
                module._buffers[name] = copies.setdefault(buffer, buffer.clone())


def check_hooks(model: nn.Module) -> None:
    """Refuse hooks of modules on gradients; what the forward pass meets is part of the program."""
    for name, module in model.named_modules():
        if module._backward_hooks or module._backward_pre_hooks:
            raise UnsupportedError(f"{name or type(model).__name__} has a backward hook, which the kernels do not call")


def check_generators(model: nn.Module) -> None:
    """Refuse a model with a generator of random numbers: what its forward draws is not in the program."""
    for name, module in model.named_modules():
        for attribute, value in vars(module).items():
            if isinstance(value, (random.Random, np.random.Generator, np.random.RandomState, torch.Generator)):
                where = f"{name}.{attribute}".lstrip(".")
                raise UnsupportedError(f"{where} is a generator of random numbers, and the kernels draw none")


def check_stores(model: nn.Module, images: Tensor) -> None:
    """Refuse a forward that keeps something in the model, which the kernels would not do."""
    before = {name: _attributes(module) for name, module in model.named_modules()}
    try:
        _run(model, images)
    except Exception:
        # The export tells more about it.
        return
    for name, module in model.named_modules():
        for attribute, value in _attributes(module).items():
            if before[name].get(attribute) != value:
                where = f"{name}.{attribute}".lstrip(".")
                raise UnsupportedError(f"{type(model).__name__}: its forward stores {where}, which the kernels do not")


def _attributes(module: nn.Module) -> dict[str, tuple[int, int]]:
    """Which object each attribute of a module is, and how many it has if it is a collection."""
    return {
        name: (id(value), len(value) if isinstance(value, (list, dict, set, deque)) else 0)
        for name, value in vars(module).items()
    }


def two_items(example: Tensor) -> Tensor:
    """A batch like the example: enough for batch norm, and for torch.export, which takes a size of one for a constant.

    >>> two_items(torch.zeros(64, 3, 8, 8)).shape
    torch.Size([2, 3, 8, 8])
    """
    if not isinstance(example, Tensor) or example.dtype != torch.float32:
        given = str(example.dtype) if isinstance(example, Tensor) else type(example).__name__
        raise UnsupportedError(f"an input of {given}; the kernels take one tensor of float32")
    if example.ndim not in (2, 4) or not example.numel():
        raise UnsupportedError(f"an input of shape {tuple(example.shape)}; the kernels take (N, C, H, W) or (N, F)")
    return torch.cat([example[:1], example[:1]]).detach()


def program_of(model: nn.Module, images: Tensor) -> ExportedProgram:
    """The operators that the model calls in training mode, for any number of images."""
    for module in model.modules():
        if counts_batches(module):
            # It would read its counter, which export refuses. It then passes on what it passes without a counter.
            vars(module)["momentum"] = 0.0
    try:
        with quiet():
            return torch.export.export(model, (images,), dynamic_shapes=({0: Dim("batch")},), strict=False)
    except Exception as error:
        # It raises almost anything.
        title, reason = type(model).__name__, next(iter(str(error).strip().splitlines()), type(error).__name__)
        if reason.startswith("Constraints violated (batch)"):
            hint = "if it calls len(x), let it take x.shape[0]"
            raise UnsupportedError(f"{title}: its forward does not treat all batch sizes alike; {hint}") from error
        raise UnsupportedError(f"{title} cannot be exported by torch.export: {shown(reason)}") from error


def counts_batches(module: object) -> bool:
    """Whether it averages the statistics of all batches (momentum=None), as torch's own forward does."""
    return isinstance(module, _BatchNorm) and module.momentum is None and type(module).forward is _BatchNorm.forward


def check_by_running(model: nn.Module, images: Tensor) -> None:
    """Refuse what the program does not show: gradients of the user's own, chance in Python, a case for one item."""
    title = type(model).__name__
    before = _drawn_in_python()
    output, calls = _run(model, images)
    if _drawn_in_python() != before:
        raise UnsupportedError(f"{title}: its forward draws random numbers with Python or NumPy")
    if "Tensor.register_hook" in calls:
        raise UnsupportedError(f"{title}: its forward registers a hook on a gradient, which the kernels do not call")
    for name in _own_gradients(output):
        raise UnsupportedError(f"{title}: {shown(name)} computes a gradient of its own, which the kernels do not")
    try:
        single, calls_for_one = _run(model, images[:1])
    except Exception:
        # It takes no single item, like batch norm on features: there is nothing to be like.
        return
    if calls_for_one != calls or single.shape != (1, *output.shape[1:]):
        raise UnsupportedError(f"{title}: its forward does not treat a batch of one item as others")


def _run(model: nn.Module, images: Tensor) -> tuple[Any, list[str]]:
    with quiet(), Calls() as calls:
        output = model(images.clone())
    return output, calls.names


def _drawn_in_python() -> tuple[object, ...]:
    _, keys, place, *_ = np.random.get_state()
    return random.getstate(), bytes(np.asarray(keys)), place


def _own_gradients(output: Tensor) -> Iterator[str]:
    """The names of the torch.autograd.Functions behind an output."""
    waiting: list[Any] = [output.grad_fn]
    seen = set[Any]()
    while waiting:
        function = waiting.pop()
        if function is None or function in seen:
            continue
        seen.add(function)
        if isinstance(function, BackwardCFunction):
            yield type(function).__name__.removesuffix("Backward")
        waiting += [following for following, _ in function.next_functions]

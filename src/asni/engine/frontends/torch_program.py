"""A module as a program of torch.export, without changing the module."""

import io
import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram, ShapesCollection
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from asni.engine.frontends.aten import OPERATORS

_REGISTERED = ("_parameters", "_buffers", "_modules")


@contextmanager
def untouched(module: nn.Module) -> Iterator[None]:
    """In evaluation mode and without gradients; afterwards the module is as before."""
    with restored(module), torch.no_grad():
        module.eval()
        yield


@contextmanager
def restored(module: nn.Module) -> Iterator[None]:
    """Afterwards the module is as before, whatever its hooks set."""
    before = [(vars(each), dict(vars(each))) for each in module.modules()]
    before += [(now[name], dict(now[name])) for now, _ in before for name in _REGISTERED if name in now]
    try:
        yield
    finally:
        for now, then in before:
            now.clear()
            now.update(then)


def exported(module: nn.Module, examples: Sequence[Tensor], any_batch: bool) -> ExportedProgram:
    """Export the module and decompose all operators but those that have a counterpart here."""
    # torch.export takes a size of one for a constant.
    examples = [torch.cat([each, each]) if any_batch and len(each) == 1 else each.clone() for each in examples]
    batch, shapes = Dim("batch"), ShapesCollection()
    for each in examples:
        shapes[each] = {0: batch}
    dynamic: Any = shapes if any_batch else None
    decompositions = torch.export.default_decompositions()
    for operator in OPERATORS:
        decompositions.pop(operator, None)
    with quiet():
        program = torch.export.export(module, tuple(examples), dynamic_shapes=dynamic, strict=False)
        decomposed: ExportedProgram = program.run_decompositions(decompositions)
    return decomposed


@contextmanager
def quiet() -> Iterator[None]:
    """What torch says about its own code, and about errors that it raises too, is not for the user."""
    level = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        with warnings.catch_warnings(), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)


def shapes_and_calls(module: nn.Module, inputs: Sequence[Tensor]) -> tuple[list[tuple[int, ...]], list[str]]:
    """Run the module; return the shapes of its outputs, and the functions of torch that it called on the way."""
    with quiet(), Calls() as calls:
        outputs = module(*inputs)
    return [tuple(each.shape) for each in pytree.tree_leaves(outputs)], calls.names


class Calls(TorchFunctionMode):
    """The names of the functions of torch that are called, in their order."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(getattr(func, "__qualname__", repr(func)))
        return func(*args, **(kwargs or {}))

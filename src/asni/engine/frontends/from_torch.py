"""A PyTorch module as a `Graph`, by way of torch.export."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from asni.engine.frontends.aten.calls import FixedBatchError, Shape
from asni.engine.frontends.aten.translation import Translation
from asni.engine.frontends.torch_program import exported, shapes_and_calls, untouched
from asni.engine.graph import BATCH, Graph
from asni.errors import EngineError, shown


def graph_of_module(module: nn.Module, example: Tensor | tuple[Tensor, ...]) -> Graph:
    """The graph of a module in evaluation mode, for inputs like the example and any batch size.

    A module that does not treat every batch size alike gets a graph for that of the example. Everything is computed in
    float32: from a module in half or double precision the graph differs by rounding alone.
    """
    examples = _like_the_weights(module, _checked(example))
    with untouched(module):
        return _for_any_batch(module, examples) or _for_one_batch(module, examples)


def _checked(example: Tensor | tuple[Tensor, ...]) -> list[Tensor]:
    examples = [example] if isinstance(example, Tensor) else list(example)
    if not examples:
        raise EngineError("the example is empty; give one tensor for each input of the network")
    for number, each in enumerate(examples, start=1):
        if not isinstance(each, Tensor) or not each.is_floating_point():
            what = f"of {each.dtype}" if isinstance(each, Tensor) else f"a {type(each).__name__}"
            raise EngineError(f"input {number} of the example is {what}; the engine takes tensors of float32")
        if not each.ndim or not each.numel():
            raise EngineError(
                f"input {number} of the example has shape {tuple(each.shape)}; give one item or more, "
                "with the batch as first dimension"
            )
    return examples


def _like_the_weights(module: nn.Module, examples: Sequence[Tensor]) -> list[Tensor]:
    """On the device of the weights, and in their precision if they all have the same."""
    weights = [each for each in (*module.parameters(), *module.buffers()) if each.is_floating_point()]
    examples = [each.detach().to(weights[0].device if weights else "cpu") for each in examples]
    dtypes = [*{each.dtype for each in weights}] or [torch.float32]
    return [each.to(dtypes[0]) for each in examples] if len(dtypes) == 1 else examples


def _for_any_batch(module: nn.Module, examples: Sequence[Tensor]) -> Graph | None:
    try:
        program = exported(module, examples, any_batch=True)
    except Exception:
        # It raises almost anything; the export for one batch size will tell what is wrong.
        return None
    try:
        graph, shapes = Translation(program, module, {each.dtype for each in examples}).graph()
    except FixedBatchError:
        return None
    return graph if _treats_one_item_alike(module, examples, shapes) else None


def _for_one_batch(module: nn.Module, examples: Sequence[Tensor]) -> Graph:
    try:
        program = exported(module, examples, any_batch=False)
    except Exception as error:
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise EngineError(
            f"{type(module).__name__} cannot be exported by torch.export: {shown(reason)}\n"
            "Its forward must take the example, and must not branch on the values of tensors."
        ) from error
    return Translation(program, module, {each.dtype for each in examples}).graph()[0]


def _treats_one_item_alike(module: nn.Module, examples: Sequence[Tensor], shapes: Sequence[Shape]) -> bool:
    """Run one item and two, because torch.export takes for granted that there are at least two."""
    try:
        found, calls = shapes_and_calls(module, [each[:1].clone() for each in examples])
        _, calls_for_two = shapes_and_calls(module, [torch.cat([each[:1], each[:1]]) for each in examples])
    except Exception:
        # A module may refuse a single item.
        return False
    expected = [tuple(size // BATCH if size and size % BATCH == 0 else size for size in shape) for shape in shapes]
    return found == expected and calls == calls_for_two

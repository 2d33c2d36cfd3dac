"""How often each weight of a network is multiplied, seen while an example passes through it."""

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from inspect import signature
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from asni.errors import AsniError, UsageError
from asni.pruning.layers import CONVOLUTION_AND_LINEAR, EMBEDDINGS, is_conv1d_of_transformers
from asni.pruning.masks import shape_of
from asni.pruning.sharded import is_sharded

InputSize = Sequence[int] | Sequence[Sequence[int]] | Tensor | Sequence[Tensor] | Mapping[str, Any]
"""The size of an input, or of several; or the input itself: a tensor, several, or keyword arguments."""

HOW = (
    "input_size is the size of a whole batch, such as (1, 3, 32, 32), a list of sizes, or an example: a tensor, or a "
    "dict of keyword arguments."
)

Calls = Counter[tuple[int, ...]]
"""How often a weight was used in which way: the way says how many times one call multiplies each element, for every
block of rows (one block, but for the three of attention)."""


def calls_of(model: nn.Module, input_size: InputSize) -> dict[int, Calls]:
    """The calls of each weight, by the id of the parameter, while an example passes through the model.

    The model runs once, in evaluation mode, without gradients; nothing about it changes. Weights that no known layer
    uses are missing.
    """
    arguments, keywords = _inputs(model, input_size)
    inner = _unwrapped(model)
    calls: dict[int, Calls] = {}
    with ExitStack() as stack:
        for module in inner.modules():
            stack.callback(module.register_forward_hook(_counting(module, calls), with_kwargs=True).remove)
        stack.enter_context(_evaluating(inner))
        # Swapped in for the call: a module that writes to its buffers writes to these copies.
        buffers = {name: buffer.clone() for name, buffer in inner.named_buffers()}
        try:
            torch.func.functional_call(inner, buffers, arguments, keywords)
        except Exception as error:
            sizes = ", ".join(_described(value) for value in [*arguments, *keywords.values()])
            raise AsniError(
                f"{type(inner).__name__} fails on an input of size {sizes}: {type(error).__name__}: {error}\n{HOW}"
            ) from error
    return calls


def macs(weight: Tensor, calls: Calls) -> int:
    """How many multiplications a weight takes in all calls.

    >>> macs(torch.ones(3, 2), Counter({(10,): 2})), macs(torch.ones(2, 2), Counter({(10, 3): 1}))
    (120, 26)
    """
    return sum(times * sum(uses) * (weight.numel() // len(uses)) for uses, times in calls.items())


def alive_macs(weight: Tensor, alive: int, calls: Calls) -> int:
    """How many of them are by weights that are not zero, of which there are `alive`.

    >>> weight = torch.tensor([[1.0, 2.0], [0.0, 3.0]])
    >>> alive_macs(weight, 3, Counter({(10,): 1})), alive_macs(weight, 3, Counter({(10, 3): 1}))
    (30, 23)
    """
    total = 0
    for uses, times in calls.items():
        counts = [alive]
        if len(uses) > 1:
            whole = weight.full_tensor() if is_sharded(weight) else weight
            counts = [int(torch.count_nonzero(block)) for block in whole.detach().chunk(len(uses))]
        total += times * sum(use * count for use, count in zip(uses, counts, strict=True))
    return total


def _counting(module: nn.Module, calls: dict[int, Calls]) -> Callable[..., None]:
    # Taken before the run: FSDP2 puts other parameters in their places while it lasts.
    ids = {name: id(weight) for name, weight in module.named_parameters() if weight.is_floating_point()}

    def count(module: nn.Module, arguments: tuple[Any, ...], keywords: dict[str, Any], output: Any) -> None:
        given = signature(module.forward).bind(*arguments, **keywords).arguments
        for name, uses in _uses(module, given, output).items():
            if name in ids:
                calls.setdefault(ids[name], Counter())[uses if len(set(uses)) > 1 else uses[:1]] += 1

    return count


def _uses(module: nn.Module, given: Mapping[str, Any], output: Any) -> dict[str, tuple[int, ...]]:
    """How often one call of a known layer multiplies each element of its weights, by the names of these."""
    if isinstance(module, nn.MultiheadAttention):
        queries = _tokens(given["query"], module.embed_dim)
        keys, values = _tokens(given["key"], module.kdim), _tokens(given["value"], module.vdim)
        together = {"in_proj_weight": (queries, keys, values), "out_proj.weight": (queries,)}
        return together | {"q_proj_weight": (queries,), "k_proj_weight": (keys,), "v_proj_weight": (values,)}
    if isinstance(module, nn.RNNBase | nn.RNNCellBase):
        steps = _tokens(_first(given), module.input_size)
        return {name: (steps,) for name, _ in module.named_parameters() if name.startswith("weight")}
    if isinstance(module, EMBEDDINGS):
        return {"weight": (0,)}
    if isinstance(module, nn.Bilinear):
        return {"weight": (_tokens(_first(given), module.in1_features),)}
    if is_conv1d_of_transformers(module):
        return {"weight": (_tokens(_first(given), cast(Tensor, module.weight).shape[0]),)}
    if isinstance(module, nn.Linear):
        return {"weight": (_tokens(_first(given), module.in_features),)}
    if isinstance(module, CONVOLUTION_AND_LINEAR):
        # A kernel is laid once on each position of the output; a transposed one on each position of the input.
        if module.transposed:
            return {"weight": (_tokens(_first(given), cast(int, module.in_channels)),)}
        return {"weight": (_tokens(output, cast(int, module.out_channels)),)}
    return {}


def _first(given: Mapping[str, Any]) -> Any:
    return next(iter(given.values()))


def _tokens(value: Tensor | PackedSequence, features: int) -> int:
    return (value.data if isinstance(value, PackedSequence) else value).numel() // max(features, 1)


def _inputs(model: nn.Module, input_size: InputSize) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of the model's forward, positional and by keyword, where its weights are."""
    floats = [weight for weight in model.parameters() if weight.is_floating_point()]
    device = floats[0].device if floats else None

    def placed(value: Any) -> Any:
        return value.to(device) if isinstance(value, Tensor) else value

    if isinstance(input_size, Mapping):
        return (), {name: placed(value) for name, value in input_size.items()}
    if isinstance(input_size, Tensor):
        return (placed(input_size),), {}
    if isinstance(input_size, Sequence) and input_size and all(isinstance(value, Tensor) for value in input_size):
        return tuple(map(placed, input_size)), {}
    # A generator of its own: the random numbers of a training stay as they are.
    generator = torch.Generator().manual_seed(0)
    samples = [torch.randn(*size, generator=generator) for size in _sizes(input_size)]
    return tuple(placed(sample).to(floats[0].dtype if floats else None) for sample in samples), {}


def _sizes(input_size: Any) -> list[Sequence[int]]:
    """The sizes of the inputs, of one or several."""
    sizes = [input_size] if _is_size(input_size) else input_size
    if not isinstance(sizes, Sequence) or not sizes or not all(map(_is_size, sizes)):
        raise UsageError(f"{HOW} Not {input_size!r}.")
    return list(sizes)


def _is_size(value: Any) -> bool:
    return isinstance(value, Sequence) and bool(value) and all(isinstance(each, int) and each > 0 for each in value)


def _described(value: Any) -> str:
    return shape_of(value) if isinstance(value, Tensor) else type(value).__name__


def _unwrapped(model: nn.Module) -> nn.Module:
    """The model inside DDP and torch.compile, which would talk to other processes, or compile it with the hooks."""
    while True:
        if isinstance(model, nn.parallel.DistributedDataParallel | nn.DataParallel):
            model = model.module
        elif isinstance(inner := getattr(model, "_orig_mod", None), nn.Module):
            model = inner
        else:
            return model


@contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode without gradients; training flags and random numbers are restored afterwards."""
    flags = {module: module.training for module in model.modules()}
    devices = {weight.device.index for weight in model.parameters() if weight.is_cuda}
    fast = torch.backends.mha.get_fastpath_enabled()
    with ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        stack.enter_context(torch.random.fork_rng(devices=sorted(devices)))
        if "torch._dynamo" in sys.modules:
            stack.enter_context(torch.compiler.set_stance("force_eager"))
        # The fused kernel of nn.TransformerEncoderLayer calls none of its layers.
        torch.backends.mha.set_fastpath_enabled(False)
        # Not eval(), which a model may override.
        for module in flags:
            module.training = False
        try:
            yield
        finally:
            torch.backends.mha.set_fastpath_enabled(fast)
            for module, flag in flags.items():
                module.training = flag

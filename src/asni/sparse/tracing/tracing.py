"""A model as the steps of its training, by way of torch.export; what the kernels cannot train is refused by name."""

import operator
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, InputSpec

from asni.sparse.steps import Shape, Step, Steps, UnsupportedError
from asni.sparse.tracing.exporting import (
    check_by_running,
    check_generators,
    check_hooks,
    check_stores,
    counts_batches,
    program_of,
    two_items,
    unnoticed,
)
from asni.sparse.tracing.fusing import fused
from asni.sparse.tracing.operators import OPERATORS, Call, Refused, Stored, Value, mapped

_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)


def traced(model: nn.Module, example: Tensor) -> Steps:
    """The steps of a model in training mode, for batches of any size whose items are like those of the example.

    >>> model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 6 * 6, 10))
    >>> [step.kind for step in traced(model, torch.zeros(1, 1, 8, 8)).steps]
    ['conv', 'flatten', 'linear']
    """
    if not model.training:
        raise UnsupportedError(f"{type(model).__name__} is in evaluation mode; call its train() first")
    check_hooks(model)
    check_generators(model)
    images = two_items(example)
    with unnoticed(model):
        check_stores(model, images)
    with unnoticed(model):
        program = program_of(model, images)
    steps = _Tracing(model, program).steps()
    with unnoticed(model):
        check_by_running(model, images)
    return fused(steps)


class _Tracing:
    """Goes through a program once. A refusal is raised when the output turns out to need what was refused.

    Several nodes may be one tensor, and several tensors may lie in the same memory: what is written in place is a new
    value of its tensor, and leaves no value to the other tensors in that memory.
    """

    def __init__(self, model: nn.Module, program: ExportedProgram) -> None:
        self._title, self._program = type(model).__name__, program
        self._stored = _stored(model)
        counters = {name for name, module in model.named_modules() if counts_batches(module)}
        self._cumulative = frozenset(f"{name}.num_batches_tracked".lstrip(".") for name in counters)
        self._counted: Counter[str] = Counter()
        self._tensors: dict[fx.Node, int] = {}
        self._values: list[Value | Stored | Refused] = []
        self._memory: list[int] = []
        self._steps: list[Step] = []
        self._shapes: dict[str, Shape] = {}
        self._batch: Any = None
        self._input, self._input_memory = "", -1

    def steps(self) -> Steps:
        """All steps that the output needs."""
        specs = iter(self._program.graph_signature.input_specs)
        for node in self._program.graph.nodes:
            if node.op == "placeholder":
                self._enter(node, next(specs))
            elif node.op == "call_function":
                self._follow(node)
        output = self._output()
        steps = _needed(self._steps, output)
        self._check_buffers(steps)
        _check_parameters(self._title, steps, self._stored)
        return Steps(self._input, output, tuple(steps), self._shapes)

    def _enter(self, node: fx.Node, spec: InputSpec) -> None:
        stored = None if spec.target is None else self._stored.get(spec.target)
        if spec.kind == InputKind.USER_INPUT and self._input == "":
            self._input, self._batch = node.name, node.meta["val"].shape[0]
            shape = tuple(node.meta["val"].shape[1:])
            self._input_memory = len(self._memory)
            self._shapes[node.name] = mapped(shape)
            self._bind(node, Value(node.name, mapped(shape), shape))
        else:
            self._bind(node, stored or Refused(f"{self._title}: the constant {node.name} is not a parameter"))

    def _bind(self, node: fx.Node, value: Value | Stored | Refused, memory: int | None = None) -> None:
        """A new tensor, maybe in the memory of another one."""
        self._tensors[node] = len(self._values)
        self._memory.append(len(self._values) if memory is None else memory)
        self._values.append(value)

    def _follow(self, node: fx.Node) -> None:
        result = node.meta.get("val")
        if isinstance(result, _SYMBOLIC):
            return
        if node.target is operator.getitem:
            self._follow_part(node)
        elif not isinstance(node.target, torch._ops.OpOverload):
            raise UnsupportedError(
                f"{self._name(node)}: {_title(node)} changes how torch computes; no kernel does that"
            )
        elif node.target._schema.is_mutable:
            self._overwrite(node)
        elif result is not None:
            self._bind(node, *self._computed(node))

    def _follow_part(self, node: fx.Node) -> None:
        """Of the results of an operator, only the first is a value: a pool also gives indices."""
        whole, index = node.args
        assert isinstance(whole, fx.Node)
        if index == 0:
            self._tensors[node] = self._tensors[whole]
        else:
            self._bind(node, Refused(f"{self._name(whole)}: result {index} of {_title(whole)} is made by no kernel"))

    def _computed(self, node: fx.Node) -> tuple[Value | Refused, int | None]:
        """What a call gives, and in whose memory it may lie."""
        try:
            made = self._result(node)
        except UnsupportedError as error:
            return Refused(str(error)), None
        if isinstance(made, Step):
            return self._written(made, node), self._memory_of(node) if made.kind == "flatten" else None
        is_copy = node.target is torch.ops.aten.clone.default
        return made, None if is_copy else self._memory_of(node)

    def _memory_of(self, node: fx.Node) -> int:
        return self._memory[self._tensors[node.all_input_nodes[0]]]

    def _overwrite(self, node: fx.Node) -> None:
        """A new value of a tensor; the other tensors in its memory have none any more."""
        tensor = self._tensors.get(node.args[0]) if isinstance(node.args[0], fx.Node) else None
        held = None if tensor is None else self._values[tensor]
        if tensor is not None:
            self._tensors[node] = tensor
        if isinstance(held, Stored):
            return self._count(node, held)
        made = self._result(node)
        assert tensor is not None
        memory = self._memory[tensor]
        if memory == self._input_memory:
            raise UnsupportedError(f"{self._name(node)}: {_title(node)} overwrites the input; no kernel does that")
        for other, place in enumerate(self._memory):
            if place == memory:
                self._values[other] = Refused(f"{self._name(node)}: {_title(node)} overwrites what is read later")
        self._values[tensor] = self._written(made, node) if isinstance(made, Step) else made
        return None

    def _count(self, node: fx.Node, stored: Stored) -> None:
        """Batch norm counts its batches; no other change of a parameter or a buffer is known."""
        if stored.trained or node.target is not torch.ops.aten.add_.Tensor or node.args[1:] != (1,) or node.kwargs:
            raise UnsupportedError(f"{self._name(node)}: {_title(node)} changes {stored.name}; no kernel does that")
        self._counted[stored.name] += 1

    def _result(self, node: fx.Node) -> Step | Value:
        name, title, arguments = self._name(node), _title(node), self._arguments(node)
        first = next(iter(arguments.values()), None)
        if isinstance(first, Refused):
            raise UnsupportedError(first.reason)
        if node.target not in OPERATORS:
            raise UnsupportedError(f"{name}: {title} has no kernel that trains it")
        results = node.meta["val"]
        shape = self._item(results[0] if isinstance(results, (tuple, list)) else results, f"{name}: {title}")
        counted = frozenset(self._counted)
        return OPERATORS[node.target](Call(title, name, arguments, shape, node.name, counted, self._cumulative))

    def _arguments(self, node: fx.Node) -> dict[str, Any]:
        """By name; tensors as what they hold now, sizes as they are."""
        assert isinstance(node.target, torch._ops.OpOverload)
        schema = node.target._schema.arguments
        given = {each.name: value for each, value in zip(schema, node.args, strict=False)} | node.kwargs
        return {each.name: self._held(given.get(each.name, each.default_value)) for each in schema}

    def _held(self, given: Any) -> Any:
        return self._values[self._tensors[given]] if isinstance(given, fx.Node) and given in self._tensors else given

    def _item(self, result: Tensor, what: str) -> tuple[int, ...]:
        """The shape of an item of a result."""
        if result.dtype != torch.float32:
            raise UnsupportedError(f"{what} computes in {result.dtype}; the kernels train in float32")
        batch, *shape = result.shape or (1,)
        if not _same(batch, self._batch) or any(isinstance(size, _SYMBOLIC) for size in shape):
            raise UnsupportedError(f"{what} makes a tensor that is not one row for each item of the batch")
        return tuple(shape)

    def _written(self, step: Step, node: fx.Node) -> Value:
        results = node.meta["val"]
        shape = tuple((results[0] if isinstance(results, (tuple, list)) else results).shape[1:])
        self._steps.append(step)
        self._shapes[step.output] = mapped(shape)
        return Value(step.output, mapped(shape), shape)

    def _output(self) -> str:
        structure = self._program.call_spec.out_spec
        (results,) = self._program.graph.output_node().args
        assert isinstance(results, Sequence)
        if not isinstance(structure.unflatten(list(range(structure.num_leaves))), int) or len(results) != 1:
            raise UnsupportedError(
                f"{self._title} returns more than one tensor; the kernels train a network with one output"
            )
        value = self._values[self._tensors[results[0]]] if isinstance(results[0], fx.Node) else None
        if isinstance(value, Refused):
            raise UnsupportedError(value.reason)
        if not isinstance(value, Value) or len(value.shape) != 1:
            raise UnsupportedError(f"{self._title} does not return a tensor of shape (N, classes)")
        return value.name

    def _check_buffers(self, steps: Sequence[Step]) -> None:
        """Each change of a buffer belongs to a batch norm that the output needs."""
        needed = {step.output for step in steps}
        for step in self._steps:
            if "running_mean" in step.parameters and step.output not in needed:
                raise UnsupportedError(
                    f"{step.name}: aten.batch_norm keeps statistics of what the output does not need"
                )
        roles = (each for step in steps for each in step.parameters.items())
        counters = Counter(name for role, name in roles if role == "num_batches_tracked")
        for name in self._counted - counters:
            raise UnsupportedError(f"{self._title}: {name} counts something else than the batches of one batch norm")

    def _name(self, node: fx.Node) -> str:
        """The module that calls; torch numbers the calls of a module after an @."""
        stack = [path for path, _ in node.meta.get("nn_module_stack", {}).values()]
        return re.sub(r"@\d+", "", stack[-1] if stack else "") or self._title


def _stored(model: nn.Module) -> dict[str, Stored]:
    """Parameters and buffers by all of their names, each with the first."""
    found: dict[str, Stored] = {}
    first: dict[Tensor, Stored] = {}
    for name, tensor in model.named_parameters(remove_duplicate=False):
        found[name] = first.setdefault(tensor, Stored(name, tensor, trained=True))
    for name, buffer in model.named_buffers(remove_duplicate=False):
        found[name] = first.setdefault(buffer, Stored(name, buffer, trained=False))
    return found


def _needed(steps: Sequence[Step], output: str) -> list[Step]:
    used, kept = {output}, []
    for step in reversed(steps):
        if step.output in used:
            used |= set(step.inputs)
            kept.append(step)
    return kept[::-1]


def _check_parameters(title: str, steps: Sequence[Step], stored: Mapping[str, Stored]) -> None:
    """Each parameter and each buffer belongs to one step, and lies in memory of its own."""
    uses = [(stored[name].tensor, name) for step in steps for name in step.parameters.values()]
    if not any(tensor.requires_grad for tensor, _ in uses):
        raise UnsupportedError(f"{title}: its output depends on no parameter")
    for name, count in Counter(name for _, name in uses).items():
        if count > 1:
            raise UnsupportedError(f"{title}: {name} is used twice; the kernels train weights of one layer each")
    end, before = 0, ""
    for start, stop, name in sorted((*_extent(tensor), name) for tensor, name in uses):
        if start < end:
            raise UnsupportedError(f"{title}: {name} shares memory with {before}; the kernels train them apart")
        end, before = stop, name


def _extent(tensor: Tensor) -> tuple[int, int]:
    """From its first byte in memory to behind its last one."""
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.data_ptr(), tensor.data_ptr() + (last + 1) * tensor.element_size()


def _same(size: Any, batch: Any) -> bool:
    return isinstance(size, torch.SymInt) and bool(size.node.expr == batch.node.expr)


def _title(node: fx.Node) -> str:
    return str(node.target).removesuffix(".default")

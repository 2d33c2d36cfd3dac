"""A program of torch.export, node by node, as a `Graph`."""

import operator
import re
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, InputSpec, OutputKind

from asni.engine.frontends.aten import OPERATORS
from asni.engine.frontends.aten.calls import Call, FixedBatchError, Shape, UnsupportedError, Value, Writer
from asni.engine.graph import BATCH, Graph, Node
from asni.errors import EngineError, shown

_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)
_CHECKS = ("aten._assert_tensor_metadata", "aten.sym_constrain_range", "aten.sym_constrain_range_for_size")
"""They hold for every input that has the shape and the type of the example."""


class Translation:
    """Goes through a program once and collects what is not supported; raises `FixedBatchError` as the calls do."""

    def __init__(self, program: ExportedProgram, module: nn.Module, dtypes: set[torch.dtype]) -> None:
        self._program = program
        self._modules = dict(module.named_modules())
        self._dtypes = {torch.float32, torch.float64} | dtypes
        self._writer = Writer()
        self._values: dict[fx.Node, Any] = {}
        self._inputs: dict[str, Shape] = {}
        self._unsupported: dict[str, None] = {}

    def graph(self) -> tuple[Graph, list[Shape]]:
        """The graph, and the shapes of its outputs."""
        _require_no_side_effects(self._program)
        specs = iter(self._program.graph_signature.input_specs)
        for node in self._program.graph.nodes:
            if node.op == "placeholder":
                self._values[node] = self._placeholder(node, next(specs))
            elif node.op == "call_function":
                self._values[node] = self._result(node)
        if self._unsupported:
            raise EngineError(
                f"not supported: {'; '.join(self._unsupported)}\n"
                "Replace them, or compile the part of the network without them."
            )
        outputs = self._outputs()
        names = self._distinct(outputs)
        nodes = _needed(self._writer.nodes, names)
        used = {*names, *(name for node in nodes for name in node.inputs)}
        constants = {name: array for name, array in self._writer.constants.items() if name in used}
        return Graph(self._inputs, names, nodes, constants), [each.shape for each in outputs]

    def _placeholder(self, node: fx.Node, spec: InputSpec) -> Any:
        value = node.meta["val"]
        if not isinstance(value, Tensor):
            return value
        name = self._writer.name_value(spec.target or node.name)
        if spec.kind == InputKind.USER_INPUT:
            self._inputs[name] = _shape(value)
            return Value(name, _shape(value))
        stored = self._program.state_dict | self._program.constants
        assert spec.target is not None
        return Value(name, _shape(value), stored[spec.target])

    def _result(self, node: fx.Node) -> Any:
        """What a node gives, or what stands for it in what follows if the node is not supported."""
        try:
            return self._computed(node)
        except UnsupportedError as error:
            where = _path(node)
            kind = type(self._modules[where]).__name__ if where in self._modules else "?"
            place = f"{shown(where)} ({kind})" if where else kind
            self._unsupported[f"{_title(node)} in {place}" + f": {error}" * bool(str(error))] = None
            return _tree(node.meta.get("val"), lambda tensor: Value(node.name, _shape(tensor)))

    def _computed(self, node: fx.Node) -> Any:
        result = node.meta.get("val")
        if node.target is operator.getitem:
            parts, index = self._arguments(node.args)
            if parts[index] is None:
                raise UnsupportedError(f"result {index} of {_title(node.all_input_nodes[0])}")
            return parts[index]
        if _title(node) in _CHECKS:
            return None
        if self._is_constant(node):
            return self._folded(node)
        if isinstance(result, _SYMBOLIC):
            return result
        if node.target not in OPERATORS:
            raise UnsupportedError
        return OPERATORS[node.target](self._call(node, result))

    def _is_constant(self, node: fx.Node) -> bool:
        random = torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
        return not random and all(_is_known(self._values[each]) for each in node.all_input_nodes)

    def _folded(self, node: fx.Node) -> Any:
        """Weights that are computed from others, as by a parametrisation, are computed once and for all."""
        given = {each: _tree(self._values[each], lambda value: value.constant) for each in node.all_input_nodes}
        args, kwargs = fx.map_arg((node.args, node.kwargs), given.__getitem__)
        assert callable(node.target)
        name = f"{_path(node)}.{node.name}".lstrip(".")
        return _tree(
            node.target(*args, **kwargs),
            lambda tensor: Value(self._writer.name_value(name), tuple(tensor.shape), tensor),
        )

    def _call(self, node: fx.Node, result: Any) -> Call:
        assert isinstance(node.target, torch._ops.OpOverload)
        schema = node.target._schema.arguments
        arguments = {each.name: each.default_value for each in schema if each.has_default_value()}
        arguments |= {each.name: given for each, given in zip(schema, self._arguments(node.args), strict=False)}
        arguments |= self._arguments(node.kwargs)
        tensors = [each for each in (result if isinstance(result, (tuple, list)) else [result]) if each is not None]
        # A mask or indices that are only repeated are still known; what uses them is refused if it computes with them.
        if tensors[0].dtype not in self._dtypes and node.target is not torch.ops.aten.expand.default:
            raise UnsupportedError(f"it computes in {tensors[0].dtype}")
        path = _path(node)
        is_layer = path in self._modules and set(dict(self._modules[path].named_children())) <= {"parametrizations"}
        place = path if path and is_layer else f"{path}.{node.name}".lstrip(".")
        return Call(self._writer, node.name, place, arguments, [_shape(each) for each in tensors])

    def _arguments(self, given: Any) -> Any:
        """Nodes replaced by what they gave, sizes by numbers."""
        return _numbers(fx.map_arg(given, self._values.__getitem__))

    def _outputs(self) -> list[Value]:
        specs = self._program.graph_signature.output_specs
        structure = self._program.call_spec.out_spec.unflatten(list(range(len(specs))))
        parts = structure if isinstance(structure, (tuple, list)) else [structure]
        (results,) = self._program.graph.output_node().args
        values = [self._values[each] if isinstance(each, fx.Node) else each for each in results]
        for part, value in zip(parts, values, strict=False):
            if not isinstance(part, int) or not isinstance(value, Value):
                what = type(value if isinstance(part, int) else part).__name__
                whole = f"{type(structure).__name__} with " * (part is not structure)
                raise EngineError(
                    f"the network returns {whole}{what}, not a tensor or a tuple of tensors; wrap it in a module whose "
                    "forward picks the tensors"
                )
        return values

    def _distinct(self, outputs: Sequence[Value]) -> tuple[str, ...]:
        """The names of the outputs, which must be different, and not those of inputs."""
        taken, names = set(self._inputs), []
        for value in outputs:
            if value.name in taken:
                value = Call(self._writer, "output", "output", {}, [value.shape]).emit("Identity", [value])
            taken.add(value.name)
            names.append(self._writer.read(value))
        return tuple(names)


def _require_no_side_effects(program: ExportedProgram) -> None:
    for spec in program.graph_signature.output_specs:
        if spec.kind != OutputKind.USER_OUTPUT:
            what = "its input" if spec.kind == OutputKind.USER_INPUT_MUTATION else "the buffer"
            raise EngineError(
                f"the network changes {what} {shown(spec.target)} when it runs, but an engine keeps no state; "
                "let its forward compute on a copy"
            )


def _needed(nodes: Sequence[Node], outputs: Sequence[str]) -> tuple[Node, ...]:
    """The nodes that the outputs depend on."""
    used, kept = set(outputs), []
    for node in reversed(nodes):
        if used.intersection(node.outputs):
            used |= set(node.inputs)
            kept.append(node)
    return tuple(reversed(kept))


def _title(node: fx.Node) -> str:
    return str(node.target).removesuffix(".default")


def _path(node: fx.Node) -> str:
    """The module that called the operator; torch counts the calls of a module after an @."""
    stack = [path for path, _ in node.meta.get("nn_module_stack", {}).values()]
    return re.sub(r"@\d+", "", stack[-1]) if stack else ""


def _tree(given: Any, function: Any) -> Any:
    """Apply a function to a tensor or a value, or to each in a sequence of them."""
    if isinstance(given, (tuple, list)):
        return tuple(_tree(each, function) for each in given)
    return function(given) if isinstance(given, (Tensor, Value)) else given


def _is_known(given: Any) -> bool:
    if isinstance(given, (tuple, list)):
        return all(map(_is_known, given))
    return given.constant is not None if isinstance(given, Value) else not isinstance(given, _SYMBOLIC)


def _shape(tensor: Tensor) -> Shape:
    return tuple(map(_number, tensor.shape))


def _numbers(given: Any) -> Any:
    if isinstance(given, dict):
        return {name: _numbers(each) for name, each in given.items()}
    if isinstance(given, (tuple, list)):
        return [_numbers(each) for each in given]
    return _number(given)


def _number(given: Any) -> Any:
    """A multiple of the batch size as a multiple of `BATCH`; anything else is as it is.

    torch names sizes of inputs s0, s1, ..., and what it finds in tensors otherwise.
    """
    if not isinstance(given, _SYMBOLIC):
        return given
    expression = given.node.expr
    symbols = expression.free_symbols
    if not all(str(symbol).startswith("s") for symbol in symbols):
        raise UnsupportedError("it takes a number that depends on the values of tensors")
    if len(symbols) != 1 or not isinstance(given, torch.SymInt):
        raise FixedBatchError
    factor = expression / next(iter(symbols))
    if not factor.is_Integer:
        raise FixedBatchError
    return int(factor) * BATCH

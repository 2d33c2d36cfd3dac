"""From a graph of ONNX operators on batches to the steps of one item.

Nodes are visited once, in their order. Each name stands for a constant or for a value with the shape of a whole batch,
in which `BATCH` marks the batch size. An operator checks its inputs, proves that no element of its result depends on
elements of two items, and emits steps with the shapes of one item. Operators on constants alone are calculated at once.
"""

from collections.abc import Callable, Mapping, Sequence

from asni.engine.graph import BATCH, Graph, Node
from asni.engine.lowering.arithmetic import ARITHMETIC
from asni.engine.lowering.arranging import ARRANGING
from asni.engine.lowering.call import Call, Lowered, owner
from asni.engine.lowering.functions import FUNCTIONS
from asni.engine.lowering.normalising import NORMALISING
from asni.engine.lowering.products import PRODUCTS
from asni.engine.lowering.values import Operand, Value, fault_of, is_batch, item_shape, shown_shape
from asni.engine.lowering.windows import WINDOWS
from asni.engine.steps import Shape, Step, Steps
from asni.errors import MOST_LISTED, EngineError, shown

OPERATORS: Mapping[str, Callable[[Call], Operand | list[Operand]]] = {
    **ARITHMETIC, **ARRANGING, **FUNCTIONS, **NORMALISING, **PRODUCTS, **WINDOWS,
}  # fmt: skip
"""Every operator that a graph may have."""

ALLOWED_ELEMENTS = 2**26
"""So many elements of constants may be calculated, and some for each that the graph has."""


def lower(graph: Graph, most_elements: int | None = None) -> Steps:
    """The steps that one item of a batch takes through a graph.

    Args:
        graph: The network.
        most_elements: How many elements of constants may be made from those of the graph; by default eight times as
            many as it has, and `ALLOWED_ELEMENTS`.

    Raises:
        EngineError: If the graph has an operator that is not supported, is not well formed, or mixes items of a batch.
    """
    _require_supported(graph.nodes)
    _require_distinct_names(graph)
    fixed_batch = _fixed_batch(graph.inputs)
    if most_elements is None:
        most_elements = ALLOWED_ELEMENTS + 8 * sum(array.size for array in graph.constants.values())
    lowered = Lowered(
        values=dict(graph.constants) | {name: Value(name, tuple(shape)) for name, shape in graph.inputs.items()},
        given=frozenset(graph.constants),
        owners=frozenset(map(owner, graph.constants.values())),
        taken={*graph.inputs, *graph.constants, *(name for node in graph.nodes for name in node.outputs)},
        elements=most_elements,
        fixed=fixed_batch is not None,
        shapes={name: item_shape(shape) for name, shape in graph.inputs.items()},
    )
    for node in graph.nodes:
        call = Call(node, lowered)
        result = OPERATORS[node.op](call)
        call.finish(result if isinstance(result, list) else [result])
    for name in graph.outputs:
        _name_output(name, lowered)
    return Steps(tuple(graph.inputs), graph.outputs, tuple(lowered.steps), lowered.shapes, fixed_batch)


def _require_supported(nodes: Sequence[Node]) -> None:
    first = {node.op: node for node in reversed(nodes) if node.op not in OPERATORS}
    if first:
        listed = [f"{shown(op)} ({shown(node.name or ', '.join(node.outputs))})" for op, node in first.items()]
        names = ", ".join(sorted(listed)[:MOST_LISTED])
        raise EngineError(f"the engine does not have these operators (and the first node with each): {names}")


def _require_distinct_names(graph: Graph) -> None:
    if not graph.nodes:
        raise EngineError("the graph has no nodes")
    if not graph.outputs or len(set(graph.outputs)) != len(graph.outputs):
        raise EngineError("the graph has no outputs, or one of them twice")
    made = {*graph.inputs, *graph.constants}
    if len(made) != len(graph.inputs) + len(graph.constants):
        raise EngineError("an input of the graph has the name of a constant")
    for node in graph.nodes:
        if not node.outputs or not node.outputs[0]:
            raise EngineError(f"{shown(node.op)} {shown(node.name)!r} has no output")
        for name in filter(None, node.outputs):
            if name in made:
                raise EngineError(f"{shown(node.op)} {shown(node.name)!r} makes {shown(name)}, which is made before")
            made.add(name)


def _fixed_batch(inputs: Mapping[str, Shape]) -> int | None:
    if not inputs:
        raise EngineError("the graph has no inputs")
    for name, shape in inputs.items():
        fault = fault_of(shape)
        if fault:
            raise EngineError(f"input {shown(name)}: {fault}")
    if not any(is_batch(dimension) for shape in inputs.values() for dimension in shape):
        first = next(iter(inputs.values()))
        return first[0] if first else 1
    for name, shape in inputs.items():
        if shape[:1] != (BATCH,):
            raise EngineError(f"input {shown(name)}: the first dimension of {shown_shape(shape)} is not the batch size")
    return None


def _name_output(name: str, lowered: Lowered) -> None:
    """An output that is an input, a constant or another name of a value gets a step of its own."""
    result = lowered.values.get(name)
    if result is None:
        raise EngineError(f"no node makes the output {shown(name)}")
    if not isinstance(result, Value):
        raise EngineError(f"the output {shown(name)} does not depend on the inputs")
    if not lowered.fixed and result.shape[:1] != (BATCH,):
        raise EngineError(f"output {shown(name)}: the first dimension of {shown_shape(result.shape)} is not the batch")
    if result.name != name or name not in lowered.shapes:
        lowered.steps.append(Step("reshape", shown(name), (result.name,), name))
        lowered.shapes[name] = item_shape(result.shape)

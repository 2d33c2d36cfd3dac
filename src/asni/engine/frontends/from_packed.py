"""From a packed file to the steps of its network, within the memory that the file may ask for."""

from pathlib import Path

from asni.engine.cost import activation_bytes, constant_bytes, scratch_bytes
from asni.engine.frontends.graph_file import graph_of_file
from asni.engine.lowering import lower
from asni.engine.steps import Steps
from asni.packing import Packed, read
from asni.packing.memory import Memory
from asni.packing.naming import naming

_WIDEST = 8
"""Bytes of an element of a constant."""


def read_steps(path: str | Path, *, max_memory: int | None = None) -> Steps:
    """The steps of a file that carries its graph, with NumPy alone.

    Whatever is wrong is a `PackError` with the name of the file. Its tensors, all constants and the activations of one
    item count in the memory that it may ask for, by default 256 MiB and 128 times its length.
    """
    path = Path(path)
    packed = read(path, max_memory=max_memory)
    with naming(path):
        memory = Memory(path, max_memory)
        memory.take(_held_bytes(packed))
        steps = lower(graph_of_file(packed), (memory.allowed - memory.taken) // _WIDEST)
        memory.take(constant_bytes(steps))
        memory.take(activation_bytes(steps) + scratch_bytes(steps))
    return steps


def _held_bytes(packed: Packed) -> int:
    """The tensors, and what those that are not float32 become."""
    constants = {} if packed.graph is None else packed.graph.constants
    tensors = [*packed.tensors.values(), *constants.values()]
    copied = [tensor for tensor in tensors if tensor.dtype.is_float and tensor.dtype.name != "float32"]
    return sum(tensor.array.nbytes for tensor in tensors) + 4 * sum(tensor.array.size for tensor in copied)

"""Packed files that carry the graph of their network, so that they run with NumPy alone."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from asni import packing
from asni.engine.frontends.graph_file import section_of
from asni.engine.graph import Graph
from asni.errors import UsageError
from asni.packing import Inspection, Source
from asni.packing.convert import to_torch
from asni.packing.rebuilding import build_described

if TYPE_CHECKING:
    import torch

    from asni.packing import Packable

    Example = torch.Tensor | tuple[torch.Tensor, ...] | None


def pack(
    source: "Packable | Source",
    out: str | Path | None = None,
    mode: str = "exact",
    *,
    example: "Example" = None,
    graph: bool = False,
    trust_code: bool = False,
    max_memory: int | None = None,
) -> Inspection:
    """Write a model, a state_dict, a safetensors, ONNX or `weights_only` state_dict file, or a finished run to `out`.

    exact: every weight bit for bit. half: layers in half precision. int8: layers in eight bits, one scale per output
    channel. amenable: only an initialisation to train from, which is the mask, the signs and two numbers per layer.
    A source file may ask for `max_memory` bytes, by default for 256 MiB and 128 times its length.

    With the graph, `asni.load_engine` runs the file without PyTorch. For a model, give an `example` of its input, or
    a tuple of them; for a run or an ONNX file, `graph=True`. A run whose network is an import path needs `trust_code`.

    >>> import tempfile, torch
    >>> model = torch.nn.Linear(100, 100)
    >>> _ = model.weight.data.fill_(0.0)[:10].fill_(0.5)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     packed = pack(model, f"{folder}/net.asni", example=torch.zeros(2, 100))
    >>> packed.mode, packed.nonzeros, packed.dense_bytes > 40 * packed.bytes
    ('exact', 1000, True)
    >>> packed.graph["nodes"]
    1
    """
    if example is None and not graph:
        return packing.pack(source, out, mode, max_memory=max_memory)
    if mode == "amenable":
        raise UsageError(
            "an amenable file holds what a network is trained from, so it carries no graph to run. "
            "Pack it with mode 'exact', 'half' or 'int8'."
        )
    from asni.engine.lowering import lower

    found = packing.source_of(source, mode, max_memory)
    made = _graph(source, found, example, trust_code, max_memory)
    # Refused now rather than when the file is run, perhaps on another machine.
    lower(made)
    return packing.pack(replace(found, graph=section_of(made, found.tensors)), out, mode)


def _graph(source: object, found: Source, example: "Example", trust_code: bool, max_memory: int | None) -> Graph:
    if isinstance(source, str | Path) and Path(source).suffix == ".onnx":
        from asni.engine.frontends.from_onnx import read_onnx_graph

        examples = example if isinstance(example, tuple | None) else (example,)
        shapes = None if examples is None else [tuple(each.shape) for each in examples]
        return read_onnx_graph(Path(source), shapes, max_memory)
    from torch import nn, zeros

    from asni.engine.frontends.from_torch import graph_of_module

    if isinstance(source, nn.Module):
        if example is None:
            raise UsageError("the graph of a model needs an example of its input: asni.pack(model, out, example=x).")
        return graph_of_module(source, example)
    if example is not None:
        raise UsageError("an example of the input goes with a model or an ONNX file, not with other weights.")
    model = build_described(
        found.network, trust_code=trust_code, source=str(source) if isinstance(source, str | Path) else "a state_dict"
    )
    # The weights of a run are mapped into memory and cannot be written to, which torch warns of.
    own = {name: replace(tensor, array=tensor.array.copy()) for name, tensor in found.tensors.items()}
    model.load_state_dict(to_torch(own))
    return graph_of_module(model.eval(), zeros(2, *found.network["shape"]))

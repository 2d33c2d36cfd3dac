"""The command that writes a network for other programs and devices."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

import typer

from asni.cli.options import OUTPUT, MaxMemory, a_directory, a_file
from asni.cli.output import say
from asni.display import on_stderr
from asni.errors import PackError, UsageError, shown

if TYPE_CHECKING:
    from asni.engine.graph import Graph
    from asni.engine.steps import Steps

Read = TypeVar("Read")


def export(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="A packed network with its graph, such as net.asni, or an .onnx file."),
    ],
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", metavar="OUT", help="Where to write: for c a directory, else a file.", rich_help_panel=OUTPUT
        ),
    ],
    to: Annotated[
        Literal["c", "onnx", "safetensors"],
        typer.Option(
            metavar="NAME", help="c: one .c and one .h file. onnx: for other runtimes. safetensors: the tensors alone."
        ),
    ],
    precision: Annotated[
        Literal["exact", "half", "int8"] | None,
        typer.Option(metavar="NAME", help="How C stores weights: exact, or rounded to half or int8. Default: exact."),
    ] = None,
    max_memory: MaxMemory = None,
) -> None:
    """Write a network as C for a small device, or as ONNX.

    Examples:
      asni export net.asni --to c -o device --precision int8
      asni export net.asni --to onnx -o net.onnx
    """
    if precision is not None and to != "c":
        raise UsageError(f"--precision goes with --to c; {to} takes the weights as they are.")
    (a_directory if to == "c" else a_file)(out)
    if out.exists() and file.exists() and out.samefile(file):
        raise UsageError(f"--out: {shown(out)} is the file to read, and would be replaced. Choose another name.")
    if to == "c":
        _export_c(file, out, precision or "exact", max_memory)
        return
    with on_stderr().status(f"Writing {out}"):
        (_export_onnx if to == "onnx" else _export_safetensors)(file, out, max_memory)
    say(f"{out}: {out.stat().st_size:,} bytes")


def _export_c(file: Path, out: Path, precision: Literal["exact", "half", "int8"], max_memory: int | None) -> None:
    with on_stderr().status(f"Writing {out}"):
        from asni.engine.c_export import write_c
        from asni.engine.fusing import fuse

        written = write_c(fuse(_steps(file, max_memory)), out, _name(file), precision=precision)
    sizes = f"{written.table_bytes:,} bytes of tables, {written.scratch_bytes:,} bytes of scratch memory"
    say(f"{written.source}, {written.header}: {sizes}")
    say(f"check it: cc -std=c99 -D{_name(file).upper()}_TEST {written.source} -lm -o check && ./check")


def _export_onnx(file: Path, out: Path, max_memory: int | None) -> None:
    from asni.engine.to_onnx import write_onnx

    write_onnx(_graph(file, max_memory), out)


def _export_safetensors(file: Path, out: Path, max_memory: int | None) -> None:
    from asni.packing import Tensor, unpack
    from asni.packing.convert import write_safetensors

    if _is_onnx(file):
        constants = _graph(file, max_memory).constants
        write_safetensors(out, {name: Tensor.of(array) for name, array in constants.items()})
    else:
        unpack(file, out, "safetensors", max_memory=max_memory)


def _name(file: Path) -> str:
    """The beginning of every name in the C file.

    >>> _name(Path("runs/my-net.asni")), _name(Path("3 layers.onnx"))
    ('my_net', 'net_3_layers')
    """
    name = re.sub(r"[^A-Za-z0-9]+", "_", file.stem)
    return name if name[:1].isalpha() else f"net_{name.strip('_')}".rstrip("_")


def _is_onnx(file: Path) -> bool:
    return file.suffix.lower() == ".onnx"


def _graph(file: Path, max_memory: int | None) -> "Graph":
    if _is_onnx(file):
        from asni.engine.frontends.from_onnx import read_onnx_graph

        return read_onnx_graph(file, max_memory=max_memory)
    from asni.engine.frontends.graph_file import read_graph

    return _of_packed(read_graph, file, max_memory)


def _steps(file: Path, max_memory: int | None) -> "Steps":
    from asni.engine.frontends.from_packed import read_steps
    from asni.engine.lowering import lower

    return lower(_graph(file, max_memory)) if _is_onnx(file) else _of_packed(read_steps, file, max_memory)


def _of_packed(reader: Callable[..., Read], file: Path, max_memory: int | None) -> Read:
    """What a reader of packed files gives; a file without a graph is the user's choice, not damage."""
    from asni.packing import read

    try:
        return reader(file, max_memory=max_memory)
    except PackError:
        if read(file, max_memory=max_memory).graph is None:
            raise UsageError(
                f"{shown(file)} holds weights, but not how the network calculates with them. "
                "Pack it again with --graph: asni pack RUN -o FILE --graph."
            ) from None
        raise

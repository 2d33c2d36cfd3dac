"""The commands that pack, unpack and inspect networks."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from asni.cli.endings import end, times
from asni.cli.options import AsJson, MaxMemory, OutFile, TrustCode
from asni.cli.output import one_line, print_json, print_table, say
from asni.display import on_stderr
from asni.errors import AsniError, UsageError, shown
from asni.studies.tables import Column, Table, number, percent

if TYPE_CHECKING:
    from asni.packing import Contents, Inspection


def _mean(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


CONTENTS = (
    Column("tensor", "tensor", str, is_name=True),
    Column("shape", "shape", str, expendable=2),
    Column("type", "type", str, expendable=4),
    Column("weights", "weights", expendable=1),
    Column("nonzeros", "nonzeros"),
    Column("share", "nonzero %", percent, expendable=3),
)
PACKED = (
    Column("layer", "layer", str, is_name=True),
    Column("shape", "shape", str, expendable=2),
    Column("nonzeros", "nonzeros"),
    Column("sparsity", "sparsity %", percent, expendable=1),
    Column("positive", "positive", _mean, expendable=4),
    Column("negative", "negative", _mean, expendable=4),
    Column("stored", "stored", str, expendable=5),
    Column("mask_bytes", "mask bytes", expendable=3),
    Column("value_bytes", "value bytes", expendable=3),
)

PackedFile = Annotated[Path, typer.Argument(metavar="FILE", help="A packed network, such as net.asni.")]


def pack(
    source: Annotated[
        Path, typer.Argument(metavar="RUN", help="A run directory, a .safetensors or .onnx file, or a state_dict.")
    ],
    out: OutFile,
    mode: Annotated[
        Literal["exact", "half", "int8", "amenable"],
        typer.Option(
            metavar="NAME",
            help="exact: bit for bit. half, int8: rounded. amenable: masks, signs and two numbers per layer.",
        ),
    ] = "exact",
    graph: Annotated[
        bool,
        typer.Option("--graph", help="Also pack how a run or an .onnx file calculates, to run it without PyTorch."),
    ] = False,
    trust_code: TrustCode = False,
    max_memory: MaxMemory = None,
    as_json: AsJson = False,
) -> None:
    """Pack a sparse network into one small file.

    Example: asni pack runs/mnist-fc/seed-0/asni-1 -o net.asni
    """
    _require_another_file(source, out)
    with on_stderr().status(f"Packing {source}"):
        from asni.engine.packing import pack as packed

        inspection = packed(source, out, mode, graph=graph, trust_code=trust_code, max_memory=max_memory)
    accuracy = _accuracies(source, out, trust_code) if source.is_dir() and mode in ("half", "int8") else {}
    if as_json:
        print_json({**inspection.to_json(), **accuracy})
        return
    _print_summary(out, inspection)
    if "accuracy_before" in accuracy:
        say(f"accuracy {accuracy['accuracy_before']:.2f} % before, {accuracy['accuracy_after']:.2f} % after")
    elif accuracy:
        say(f"accuracy not measured: {accuracy['accuracy_unknown']}")
    smaller = times(inspection.dense_bytes, inspection.bytes)
    end(f"{inspection.dense_bytes:,} -> {inspection.bytes:,} bytes ({smaller})", "inspect", out)


def unpack(
    file: PackedFile,
    out: OutFile,
    to: Annotated[
        Literal["safetensors", "csr"],
        typer.Option(
            metavar="NAME", help="safetensors: dense tensors. csr: compressed sparse rows for SciPy, in an .npz file."
        ),
    ] = "safetensors",
    max_memory: MaxMemory = None,
) -> None:
    """Write the tensors of a packed file in another format.

    Example: asni unpack net.asni -o net.safetensors
    """
    _require_another_file(file, out)
    with on_stderr().status(f"Unpacking {file}"):
        from asni.packing import unpack as unpacked

        unpacked(file, out, to, max_memory=max_memory)
    say(f"{out}: {out.stat().st_size:,} bytes")


def inspect(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A packed network, or a .safetensors, .onnx, .pt or .pth file.")
    ],
    sparsity: Annotated[
        float | None,
        typer.Option(metavar="X", help="Show what one magnitude threshold would leave of each tensor, such as 0.9."),
    ] = None,
    max_memory: MaxMemory = None,
    as_json: AsJson = False,
) -> None:
    """Show the tensors of a file, their shapes and nonzeros.

    For a packed network also how close it is to the entropy limit.

    Examples:
      asni inspect net.asni
      asni inspect model.safetensors --sparsity 0.9
    """
    with on_stderr().status(f"Reading {file}"):
        from asni.packing import FOREIGN, Contents, contents
        from asni.packing import inspect as inspected

        packed = sparsity is None and file.suffix.lower() not in FOREIGN
        found = inspected(file, max_memory=max_memory) if packed else contents(file, sparsity, max_memory=max_memory)
    if as_json:
        print_json(found.to_json())
    elif isinstance(found, Contents):
        _print_contents(file, found)
    else:
        _print_packed(file, found)


def _require_another_file(source: Path, out: Path) -> None:
    """Raise an error before a file is replaced by what is made from it."""
    if out.exists() and source.exists() and out.samefile(source):
        raise UsageError(f"--out: {shown(out)} is the file to read, and would be replaced. Choose another name.")


def _print_contents(file: Path, found: "Contents") -> None:
    rows = [
        {
            "tensor": each.name,
            "shape": "x".join(map(str, each.shape)),
            "type": each.dtype,
            "weights": each.size,
            "nonzeros": each.nonzeros,
            "share": each.nonzeros / each.size if each.size else None,
            "left": "! " * each.would_nearly_die + number(each.left),
        }
        for each in found.tensors
    ]
    total = {
        "tensor": "total",
        "shape": "",
        "type": "",
        "weights": found.size,
        "nonzeros": found.nonzeros,
        "share": found.nonzeros / found.size if found.size else None,
        "left": number(sum(each.left or 0 for each in found.tensors)),
    }
    columns = (*CONTENTS, *([Column("left", f"left at {found.sparsity}", str)] if found.sparsity is not None else []))
    print_table(Table([*rows, total], columns))
    say(f"{file}: {len(found.tensors)} tensors, {found.bytes:,} bytes")
    if dead := len(found.nearly_dead):
        say(f"! {dead} tensor{'s' * (dead > 1)} would nearly die: fewer than one weight left per ten outputs")


def _print_packed(file: Path, inspection: "Inspection") -> None:
    rows = [
        {
            "layer": layer.name,
            "shape": "x".join(map(str, layer.shape)),
            "nonzeros": layer.nonzeros,
            "sparsity": layer.sparsity,
            **layer.centroids,
            "stored": layer.stored,
            "mask_bytes": layer.mask_bytes,
            "value_bytes": layer.value_bytes,
        }
        for layer in inspection.layers
    ]
    print_table(Table(rows, PACKED))
    for kind in ("network", "recipe", "schedule", "metrics"):
        facts = {key: value for key, value in getattr(inspection, kind).items() if not isinstance(value, dict)}
        if facts:
            say(f"{kind}: {', '.join(f'{one_line(key)} {one_line(value)}' for key, value in facts.items())}")
    _print_summary(file, inspection)


def _print_summary(file: Path, inspection: "Inspection") -> None:
    times = inspection.dense_bytes / inspection.bytes
    size = f"{inspection.bytes:,} bytes, {times:.1f} times smaller than the dense tensors"
    say(f"{file}: {inspection.mode}, {size}")
    say("bytes by part: " + ", ".join(f"{part} {taken:,}" for part, taken in inspection.parts.items() if taken))
    if graph := inspection.graph:
        inputs = ", ".join(f"{one_line(name)} ({_dimensions(shape)})" for name, shape in graph["inputs"].items())
        outputs = ", ".join(map(one_line, graph["outputs"]))
        say(f"graph: {graph['nodes']:,} nodes, from {inputs} to {outputs}")
    what = "mask and signs" if inspection.mode == "amenable" else "the masks"
    if inspection.ratio is not None:
        say(f"{inspection.ratio:.4f} times the entropy of {what}, which is {inspection.entropy_bytes:,.0f} bytes")
    if inspection.minus_zeros:
        say(
            f"{inspection.minus_zeros:,} weights are -0.0, as after multiplying by a mask, and are stored as values. "
            "Add 0.0 to the weights before packing to make the file smaller."
        )
    if errors := [layer.error for layer in inspection.layers if layer.error]:
        largest, relative = (max(error[key] for error in errors) for key in ("max", "rms"))
        say(f"rounding: largest error {largest:.3g}, root mean square error at most {100 * relative:.3g} % in a layer")


def _dimensions(shape: list[int]) -> str:
    from asni.engine.graph import BATCH

    return " x ".join("any" if length == BATCH else f"{length}" for length in shape)


def _accuracies(run: Path, file: Path, trust_code: bool) -> dict[str, Any]:
    with on_stderr().status("Loading torch"):
        from asni.packing.comparing import accuracy_before_and_after
    try:
        with on_stderr().status("Evaluating the network before and after"):
            before, after = accuracy_before_and_after(run, file, trust_code=trust_code)
    except AsniError as error:
        return {"accuracy_unknown": str(error)}
    return {"accuracy_before": before, "accuracy_after": after}

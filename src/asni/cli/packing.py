"""The commands that pack, unpack and inspect networks."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from asni.cli.endings import end, times
from asni.cli.options import AsJson, MaxMemory, TrustCode
from asni.cli.output import one_line, print_json, print_table
from asni.display import on_stderr
from asni.errors import AsniError, printable
from asni.studies.tables import number, percent

if TYPE_CHECKING:
    from asni.packing import Contents, Inspection

PackedFile = Annotated[Path, typer.Argument(metavar="FILE", help="A packed network, such as net.asni.")]


def pack(
    source: Annotated[
        Path, typer.Argument(metavar="RUN", help="A run directory, a .safetensors file or a state_dict.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The file to write.")],
    mode: Annotated[
        Literal["exact", "half", "int8", "amenable"],
        typer.Option(help="exact: bit for bit. half, int8: rounded. amenable: masks, signs and two numbers per layer."),
    ] = "exact",
    trust_code: TrustCode = False,
    max_memory: MaxMemory = None,
    as_json: AsJson = False,
) -> None:
    """Pack a sparse network into one small file.

    Example: asni pack runs/mnist-fc/seed-0/asni-1 -o net.asni
    """
    from asni.packing import pack as packed

    with on_stderr().status(f"Packing {source}"):
        inspection = packed(source, out, mode, max_memory=max_memory)
    accuracy = _accuracies(source, out, trust_code) if source.is_dir() and mode in ("half", "int8") else {}
    if as_json:
        print_json({**inspection.to_json(), **accuracy})
        return
    _print_summary(out, inspection)
    if "accuracy_before" in accuracy:
        print(f"accuracy {accuracy['accuracy_before']:.2f} % before, {accuracy['accuracy_after']:.2f} % after")
    elif accuracy:
        print(printable(f"accuracy not measured: {accuracy['accuracy_unknown']}"))
    smaller = times(inspection.dense_bytes, inspection.bytes)
    end(f"{inspection.dense_bytes:,} -> {inspection.bytes:,} bytes ({smaller})", "inspect", out)


def unpack(
    file: PackedFile,
    out: Annotated[Path, typer.Option("--out", "-o", help="The file to write.")],
    to: Annotated[
        Literal["safetensors", "csr"],
        typer.Option(help="safetensors: dense tensors. csr: compressed sparse rows for SciPy, in an .npz file."),
    ] = "safetensors",
    max_memory: MaxMemory = None,
) -> None:
    """Write the tensors of a packed network in another format.

    Example: asni unpack net.asni -o net.safetensors
    """
    from asni.packing import unpack as unpacked

    with on_stderr().status(f"Unpacking {file}"):
        unpacked(file, out, to, max_memory=max_memory)
    print(printable(f"{out}: {out.stat().st_size:,} bytes"))


def inspect(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A packed network, or a .safetensors, .onnx, .pt or .pth file.")
    ],
    sparsity: Annotated[
        float | None, typer.Option(help="Show what one magnitude threshold would leave of each tensor, such as 0.9.")
    ] = None,
    max_memory: MaxMemory = None,
    as_json: AsJson = False,
) -> None:
    """Show the tensors of a file: shapes, nonzeros, and for a packed network how close it is to the entropy limit.

    Example: asni inspect model.safetensors --sparsity 0.9
    """
    from asni.packing import FOREIGN, Contents, contents
    from asni.packing import inspect as inspected

    packed = sparsity is None and file.suffix.lower() not in FOREIGN
    with on_stderr().status(f"Reading {file}"):
        found = inspected(file, max_memory=max_memory) if packed else contents(file, sparsity, max_memory=max_memory)
    if as_json:
        print_json(found.to_json())
    elif isinstance(found, Contents):
        _print_contents(file, found)
    else:
        _print_packed(file, found)


def _print_contents(file: Path, found: "Contents") -> None:
    rows = [
        [
            each.name,
            "x".join(map(str, each.shape)),
            each.dtype,
            number(each.size),
            number(each.nonzeros),
            percent(each.nonzeros / each.size if each.size else None),
            "! " * each.would_nearly_die + number(each.left),
        ]
        for each in found.tensors
    ]
    left = sum(each.left or 0 for each in found.tensors)
    share = percent(found.nonzeros / found.size if found.size else None)
    rows.append(["total", "", "", number(found.size), number(found.nonzeros), share, number(left)])
    headings = ["tensor", "shape", "type", "weights", "nonzeros", "nonzero %", f"left at {found.sparsity}"]
    shown = len(headings) - (found.sparsity is None)
    print_table(headings[:shown], [row[:shown] for row in rows])
    print(printable(f"{file}: {len(found.tensors)} tensors, {found.bytes:,} bytes"))
    if dead := len(found.nearly_dead):
        print(f"! {dead} tensor{'s' * (dead > 1)} would nearly die: fewer than one weight left per ten outputs")


def _print_packed(file: Path, inspection: "Inspection") -> None:
    print_table(
        ["layer", "shape", "nonzeros", "sparsity %", "positive", "negative", "stored", "mask bytes", "value bytes"],
        [
            [
                layer.name,
                "x".join(map(str, layer.shape)),
                number(layer.nonzeros),
                f"{100 * layer.sparsity:.2f}",
                *("-" if mean is None else f"{mean:.4g}" for mean in layer.centroids.values()),
                layer.stored,
                number(layer.mask_bytes),
                number(layer.value_bytes),
            ]
            for layer in inspection.layers
        ],
    )
    for kind in ("network", "recipe", "schedule", "metrics"):
        facts = {key: value for key, value in getattr(inspection, kind).items() if not isinstance(value, dict)}
        if facts:
            print(f"{kind}: {', '.join(f'{one_line(key)} {one_line(value)}' for key, value in facts.items())}")
    _print_summary(file, inspection)


def _print_summary(file: Path, inspection: "Inspection") -> None:
    times = inspection.dense_bytes / inspection.bytes
    size = f"{inspection.bytes:,} bytes, {times:.1f} times smaller than the dense tensors"
    print(printable(f"{file}: {inspection.mode}, {size}"))
    print("bytes by part: " + ", ".join(f"{part} {taken:,}" for part, taken in inspection.parts.items() if taken))
    what = "mask and signs" if inspection.mode == "amenable" else "the masks"
    if inspection.ratio is not None:
        print(f"{inspection.ratio:.4f} times the entropy of {what}, which is {inspection.entropy_bytes:,.0f} bytes")
    if inspection.minus_zeros:
        print(
            f"{inspection.minus_zeros:,} weights are -0.0, as after multiplying by a mask, and are stored as values. "
            "Add 0.0 to the weights before packing to make the file smaller."
        )
    if errors := [layer.error for layer in inspection.layers if layer.error]:
        largest, relative = (max(error[key] for error in errors) for key in ("max", "rms"))
        print(
            f"rounding: largest error {largest:.3g}, root mean square error at most {100 * relative:.3g} % in a layer"
        )


def _accuracies(run: Path, file: Path, trust_code: bool) -> dict[str, Any]:
    with on_stderr().status("Loading torch"):
        from asni.packing.comparing import accuracy_before_and_after
    try:
        with on_stderr().status("Evaluating the network before and after"):
            before, after = accuracy_before_and_after(run, file, trust_code=trust_code)
    except AsniError as error:
        return {"accuracy_unknown": str(error)}
    return {"accuracy_before": before, "accuracy_after": after}

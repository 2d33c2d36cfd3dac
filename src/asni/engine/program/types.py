"""The structures of native/ as Python sees them: the same fields in the same order, 8 bytes each."""

from ctypes import POINTER, Structure, addressof, c_char, c_double, c_int64, c_void_p, sizeof
from functools import cache
from typing import Any

from asni.engine.native import library
from asni.errors import EngineError

KERNELS = (
    "input", "output", "shift", "copy", "sparse", "dense", "winograd", "sparse_row", "dense_row", "pool", "unary",
    "binary", "softmax", "layer_norm", "mean", "matmul", "constant",
    "sparse_backward", "refresh", "winograd_weights", "winograd_gradient", "add", "add_backward", "channel_sums",
    "batch_norm", "batch_norm_backward", "pool_backward", "drop_out", "drop_out_backward", "cross_entropy", "optimise",
)  # fmt: skip
"""In the order of native/operation.h."""
UNARY = (
    "relu", "clip", "leaky_relu", "gelu", "gelu_tanh", "silu", "sigmoid", "tanh", "hard_swish", "hard_sigmoid", "erf",
    "exp", "sqrt", "abs", "neg",
)  # fmt: skip
BINARY = ("add", "sub", "mul", "div", "pow", "max", "min")
FUSED = ("none", "relu", "clip", "leaky_relu")
"""The activations that a layer applies before it stores its sums, in the order of native/epilogue.h."""

DIMENSIONS = 6
_Sizes = c_int64 * DIMENSIONS
_Batch = c_int64 * 3


class Operation(Structure):
    _fields_ = (("kernel", c_int64), ("parameters", c_void_p))


class Run(Structure):
    _fields_ = (
        ("arena", c_void_p),
        *((name, c_int64) for name in ("group_stride", "groups", "group_items", "first", "items")),
        *((name, c_void_p) for name in ("inputs", "outputs", "scratch")),
        *((name, c_int64) for name in ("scratch_stride", "part", "parts")),
        ("nonfinite", c_void_p),
        ("subnormals_are_zero", c_int64),
    )


def _structure(name: str, *fields: str) -> type[Structure]:
    """A structure of integers, but for fields that say otherwise: *pointer, ~double, [sizes], (batch)."""
    kinds = {"*": c_void_p, "~": c_double, "[": _Sizes, "(": _Batch}
    found = [(field.strip("*~[]()"), kinds.get(field[0], c_int64)) for field in fields]
    return type(name, (Structure,), {"_fields_": tuple(found)})


_ACTIVATION = ("activation", "~low", "~high")
_POSITIONS = (
    "x", "y", "residual", "rows", "columns", "x_row", "x_column", "y_row", "y_channel", "residual_row",
    "residual_channel", "gate", "gate_row", "gate_channel", "channels", "pixels", *_ACTIVATION,
)  # fmt: skip

_WINOGRAD = (
    *_POSITIONS, "inputs", "x_channel", "height", "width", "top", "left", "lanes_are_items", "block", "*weight",
    "*bias",
)  # fmt: skip
_BATCH = ("index", "value", "channels", "rows", "columns", "channel", "row", "element", "blank")
_SIZE = ("channels", "rows", "columns")


def _map(name: str) -> tuple[str, ...]:
    """The fields of a Map."""
    return (name, f"{name}_channel", f"{name}_row")


def _target(name: str) -> tuple[str, ...]:
    """The fields of a Target."""
    return (*_map(name), f"{name}_accumulate", *_map(f"{name}_mask"))


PARAMETERS: dict[str, type[Structure]] = {
    "input": _structure("Batch", *_BATCH),
    "output": _structure("Batch", *_BATCH),
    "shift": _structure(
        "Shift", "x", "y", "channels", "kinds", "*kind", "*mask", "rows", "columns", "row_step", "column_step",
        "x_channel", "x_row", "height", "width", "y_plane", "vector",
    ),
    "copy": _structure("Copy", "x", "y", "[size]", "[x_stride]", "[y_stride]", "element"),
    "sparse": _structure(
        "Sparse", *_POSITIONS, "blocks", "*start", "*offset", "*value", "*bias", "vector", "tile_groups", "tile_rows",
        "tile_columns",
    ),
    "dense": _structure(
        "Dense", *_POSITIONS, "convolution_groups", "inputs", "block", "*offset", "*weight", "*bias", "tile_channels",
        "tile_groups", "tile_rows", "tile_columns",
    ),
    "winograd": _structure("Winograd", *_WINOGRAD),
    "sparse_row": _structure(
        "SparseRow", "x", "y", "residual", "channels", "*start", "*offset", "wide", "*value", "*bias", *_ACTIVATION
    ),
    "dense_row": _structure("DenseRow", "x", "y", "residual", "channels", "inputs", "*weight", "*bias", *_ACTIVATION),
    "pool": _structure(
        "Pool", "x", "y", "channels", "rows", "columns", "x_channel", "x_row", "y_channel", "y_row", "average",
        "*row_window", "*column_window", "row_step", "column_step", "width", "window", "stride", "left", "pairs",
        "*scale", "element",
    ),
    "unary": _structure(
        "Unary", "x", "y", "planes", "rows", "floats", "x_plane", "x_row", "y_plane", "y_row", "function", "~low",
        "~high",
    ),
    "binary": _structure(
        "Binary", "a", "b", "y", "*a_constant", "*b_constant", "[size]", "[a_stride]", "[b_stride]", "[y_stride]",
        "function", "element",
    ),
    "softmax": _structure("Softmax", "x", "y", "outer", "count", "floats"),
    "layer_norm": _structure("LayerNorm", "x", "y", "rows", "count", "*weight", "*bias", "~epsilon", "element"),
    "mean": _structure(
        "Mean", "x", "y", "[size]", "[x_stride]", "[y_stride]", "[reduced]", "[reduced_stride]", "~scale", "element"
    ),
    "matmul": _structure(
        "Matmul", "a", "b", "y", "(batch)", "(a_batch)", "(b_batch)", "(y_batch)", "rows", "inner", "columns", "element"
    ),
    "constant": _structure("Constant", "y", "count", "*value", "element"),
    "sparse_backward": _structure(
        "SparseBackward", "x", "dx", "dy", "rows", "columns", "x_row", "x_column", "dx_row", "dx_column", "dy_row",
        "channels", "*x_offset", "*dx_offset", "chunk", "blocks", "*start", "*offset", "*value", "*gradient",
        "gradient_row", "accumulate", "mask", "tiles_at_once", "tile_groups", "tile_rows", "tile_columns",
    ),
    "refresh": _structure("Refresh", "*from", "*index", "*to", "count"),
    "winograd_weights": _structure("WinogradWeights", "*from", "*index", "*to", "outputs", "inputs", "pack"),
    "winograd_gradient": _structure("WinogradGradient", *_WINOGRAD, "*index", "*gradient", "gradient_row"),
    "add": _structure("Add", *_map("a"), *_map("b"), *_map("y"), *_SIZE, "relu"),
    "add_backward": _structure("AddBackward", *_map("dy"), *_target("da"), *_target("db"), *_SIZE),
    "channel_sums": _structure("ChannelSums", *_map("dy"), *_SIZE, "*sums"),
    "batch_norm": _structure(
        "BatchNorm", *_map("x"), *_map("residual"), *_map("y"), *_SIZE, "relu", "training", "*weight", "*bias", "*mean",
        "*inverse", "*running_mean", "*running_var", "~momentum", "~epsilon",
    ),
    "batch_norm_backward": _structure(
        "BatchNormBackward", *_map("dy"), *_map("x"), *_target("dx"), *_target("dresidual"), *_SIZE, "*weight", "*mean",
        "*inverse", "*dweight", "*dbias",
    ),
    "pool_backward": _structure(
        "PoolBackward", *_map("x"), *_map("y"), *_map("dy"), *_target("dx"), *_SIZE, "height", "width", "average",
        "*row_window", "*column_window", "row_step", "column_step", "*scale", "pairs",
    ),
    "drop_out": _structure("DropOut", *_map("x"), *_map("y"), *_SIZE, "~probability", "*seed", "salt"),
    "drop_out_backward": _structure(
        "DropOutBackward", *_map("dy"), *_target("dx"), *_SIZE, "~probability", "*seed", "salt"
    ),
    "cross_entropy": _structure(
        "CrossEntropy", *_map("x"), *_map("dx"), "classes", "labels", "output", "*scale"
    ),
    "optimise": _structure(
        "Optimise", "begin", "count", "*weights", "*gradient", "rows", "row_stride", "*first", "*second", "*index",
        "kind", "*settings",
    ),
}  # fmt: skip


@cache
def core() -> Any:
    """The native core with the functions that run programs declared; only where `library()` is not None."""
    found = library()
    assert found is not None
    found.asni_tile.argtypes = [c_int64, c_int64, POINTER(c_int64)]
    found.asni_tile.restype = c_int64
    found.asni_scratch.argtypes = [c_int64, c_void_p]
    found.asni_scratch.restype = c_int64
    found.asni_team_new.argtypes = [c_int64]
    found.asni_team_new.restype = c_void_p
    found.asni_team_delete.argtypes = [c_void_p]
    found.asni_execute.argtypes = [c_void_p, c_void_p, c_int64, c_void_p]
    found.asni_execute.restype = None
    found.asni_time.argtypes = [c_void_p, c_int64, c_void_p, c_void_p]
    found.asni_time.restype = None
    found.asni_peak.restype = c_double
    found.asni_size.argtypes, found.asni_size.restype = [c_int64], c_int64
    sizes = [sizeof(PARAMETERS[kernel]) for kernel in KERNELS]
    if sizes != [found.asni_size(index) for index in range(len(KERNELS))] or sizeof(Run) != found.asni_size(-1):
        raise EngineError("the native core was built from other sources than this version of asni. Install asni again.")
    return found


def tiles(kernel: str) -> list[tuple[int, int, int, int, int]]:
    """The tiles of a kernel: vector (of dense kernels: channels), groups, rows, columns, and the stride of columns."""
    found: list[tuple[int, int, int, int, int]] = []
    to = (c_int64 * 5)()
    while core().asni_tile(KERNELS.index(kernel), len(found), to):
        found.append((to[0], to[1], to[2], to[3], to[4]))
    return found


def address(array: Any) -> int:
    """The address of a NumPy array's memory; whoever passes it on keeps the array."""
    if array is None:
        return 0
    try:
        # Four times faster than array.ctypes.data, which a small network would notice.
        return addressof(c_char.from_buffer(array))
    except (TypeError, ValueError):
        # It is empty, or must not be written to.
        return int(array.ctypes.data)

"""Write the calls of all steps, each kind in a function of its own."""

from collections.abc import Callable, Mapping, Sequence
from math import prod

import numpy as np

from asni.engine.graph import Array
from asni.engine.interpreter import bins, divisors
from asni.engine.program.calls import Draft, merged
from asni.engine.program.choices import Choice, Site
from asni.engine.program.geometry import Window
from asni.engine.program.layers import Layer
from asni.engine.program.layouts import NO_HALO, Halo, Layout, Machine, Mode, contiguous_strides, layout_of
from asni.engine.program.types import BINARY, DIMENSIONS, UNARY
from asni.engine.steps import Shape, Step, Steps
from asni.errors import EngineError, shown

POINTWISE = Window((1, 1), (1, 1), (1, 1), 0, 0, 1)


class Drafter:
    """Steps in one layout; `choose(number, site)` names the kernel of each layer."""

    def __init__(
        self,
        steps: Steps,
        mode: Mode,
        machine: Machine,
        choose: Callable[[int, Site], Choice],
        groups: int,
        zeros: bool,
    ) -> None:
        self.steps, self.choose, self.groups, self.zeros = steps, choose, groups, zeros
        self.draft = Draft(mode, machine)
        self.halos = halos_of(steps) if mode == "lanes" else {}

    def run(self) -> Draft:
        """All calls, from the copies of the inputs to the copies of the outputs."""
        for index, name in enumerate(self.steps.inputs):
            self._enter(index, name)
        for number, step in enumerate(self.steps.steps):
            KINDS[step.kind](self, number, step)
        for index, name in enumerate(self.steps.outputs):
            self._leave(index, name)
        return self.draft

    def layout(self, name: str) -> Layout:
        return self.draft.layouts[name]

    def new(self, name: str) -> Layout:
        """The layout of a value that a step is about to write."""
        layout = layout_of(self.steps.shapes[name], self.draft.mode, self.draft.machine, self.halos.get(name, NO_HALO))
        self.draft.layouts[name] = layout
        return layout

    def _enter(self, index: int, name: str) -> None:
        y = self.new(name)
        self.draft.call("input", -1, name, (), index=index, value=self.draft.place(name), **as_map(y))

    def _leave(self, index: int, name: str) -> None:
        fields = {"index": index, "value": self.draft.place(name), **as_map(self.layout(name))}
        self.draft.call("output", -1, f" output {index}", (name,), **fields)

    def copy(
        self, number: int, x: tuple[str, int, Sequence[int]], y: tuple[str, int, Sequence[int]], size: Shape
    ) -> None:
        """Copy an array of this size from one value to another; each with its offset and strides."""
        (source, source_offset, source_strides), (target, target_offset, target_strides) = x, y
        sizes, (walk, other) = merged(size, tuple(source_strides), tuple(target_strides))
        self._require_dimensions(number, len(sizes))
        self.draft.call(
            "copy", number, target, (source,),
            x=self.draft.place(source, source_offset), y=self.draft.place(target, target_offset),
            size=_padded(sizes, 1), x_stride=_padded(walk, 0), y_stride=_padded(other, 0), element=self.draft.element,
        )  # fmt: skip

    def contiguous(self, number: int, name: str) -> str:
        """The value itself if it lies in row-major order, else a copy that does."""
        layout = self.layout(name)
        if layout.is_contiguous:
            return name
        strides = contiguous_strides(layout.shape, layout.element)
        packed = self.draft.temporary(
            Layout(layout.shape, strides, layout.element, 0, layout.element * prod(layout.shape))
        )
        self.copy(number, (name, 0, layout.strides), (packed, 0, strides), layout.shape)
        return packed

    def write(self, number: int, name: str) -> str:
        """Where to write a result in row-major order; `written` brings it to the value's own layout."""
        layout = self.new(name)
        if layout.is_contiguous:
            return name
        strides = contiguous_strides(layout.shape, layout.element)
        return self.draft.temporary(
            Layout(layout.shape, strides, layout.element, 0, layout.element * prod(layout.shape))
        )

    def written(self, number: int, packed: str, name: str) -> None:
        if packed != name:
            layout = self.layout(name)
            self.copy(number, (packed, 0, self.layout(packed).strides), (name, 0, layout.strides), layout.shape)

    def _require_dimensions(self, number: int, count: int) -> None:
        if count > DIMENSIONS:
            step = self.steps.steps[number]
            raise EngineError(f"{shown(step.name)}: {step.kind} over {count} dimensions; at most {DIMENSIONS} are run")

    # Layers

    def conv(self, number: int, step: Step) -> None:
        self.new(step.output)
        residual = step.inputs[1] if len(step.inputs) > 1 else None
        self._layer(number, step, (step.inputs[0], step.output, residual), Window.of(step))

    def linear(self, number: int, step: Step) -> None:
        """Rows are places of a map. In "plain", rows become the columns of a matrix first, to be taken by vectors."""
        names = [self.contiguous(number, name) for name in step.inputs]
        target = self.write(number, step.output)
        values = (names[0], target, names[1] if len(names) > 1 else None)
        rows = prod(self.layout(target).shape[:-1])
        if self.draft.mode == "plain" and rows > 1:
            turned = [None if name is None else self._turned(number, name, rows, name != target) for name in values]
            x, y, residual = turned
            assert x is not None
            assert y is not None
            self._layer(number, step, (x, y, residual), POINTWISE)
            self._turn(number, y, target, rows, back=True)
        else:
            maps = tuple(None if name is None else self._rowsas_map(name, rows) for name in values)
            assert maps[0] is not None
            assert maps[1] is not None
            self._layer(number, step, (maps[0], maps[1], maps[2]), POINTWISE)
        self.written(number, target, step.output)

    def _rowsas_map(self, name: str, rows: int) -> str:
        layout = self.layout(name)
        columns, element = layout.shape[-1], layout.element
        strides = (rows * columns * element, element, columns * element, element)
        self.draft.temporaries += 1
        seen_as = f" {self.draft.temporaries}"
        self.draft.view(seen_as, name, Layout((1, columns, rows, 1), strides, element, layout.first, layout.floats))
        return seen_as

    def _turned(self, number: int, name: str, rows: int, fill: bool) -> str:
        columns = self.layout(name).shape[-1]
        turned = self.draft.temporary(layout_of((1, columns, 1, rows), "plain", self.draft.machine))
        if fill:
            self._turn(number, turned, name, rows, back=False)
        return turned

    def _turn(self, number: int, turned: str, name: str, rows: int, *, back: bool) -> None:
        columns = self.layout(name).shape[-1]
        by_column, by_row = (turned, 0, (1, self.layout(turned).channel)), (name, 0, (columns, 1))
        self.copy(number, *((by_column, by_row) if back else (by_row, by_column)), (rows, columns))

    def _layer(self, number: int, step: Step, maps: tuple[str, str, str | None], window: Window) -> None:
        weight = step.constants["weight"]
        density = float(np.count_nonzero(weight)) / max(1, weight.size)
        site = Site(self.layout(maps[0]), self.layout(maps[1]), window, density, self.draft.mode, self.groups)
        Layer(self.draft, number, step, maps, window, zeros=self.zeros).emit(self.choose(number, site))

    # Pools

    def pool(self, number: int, step: Step) -> None:
        settings = step.settings
        height, width = self.layout(step.inputs[0]).shape[2:]
        rows, columns = self.steps.shapes[step.output][2:]
        kernel, stride, dilation, pads = (settings[key] for key in ("kernel", "stride", "dilation", "pads"))
        vertical = windows(rows, height, kernel[0], stride[0], dilation[0], pads[0])
        horizontal = windows(columns, width, kernel[1], stride[1], dilation[1], pads[1])
        scale = None
        if settings["mode"] == "average":
            shapes = self.layout(step.inputs[0]).shape, self.steps.shapes[step.output]
            scale = np.ascontiguousarray(1 / divisors(step, *shapes)[0, 0], np.float32)
        regular = (kernel[1], stride[1], pads[1]) if stride[1] <= 2 and dilation[1] == 1 else (0, 0, 0)
        self._pool(number, step, (vertical, horizontal), dilation, scale, regular)

    def adaptive_pool(self, number: int, step: Step) -> None:
        x, y = self.steps.shapes[step.inputs[0]], self.steps.shapes[step.output]
        vertical, horizontal = (np.array([(b.start, b.stop) for b in bins(x[a], y[a])], np.int32) for a in (2, 3))
        counts = np.diff(vertical) * np.diff(horizontal).T
        scale = (1 / counts).astype(np.float32) if step.settings["mode"] == "average" else None
        self._pool(number, step, (vertical, horizontal), (1, 1), scale, (0, 0, 0))

    def _pool(
        self, number: int, step: Step, windows: tuple[Array, Array], dilation: tuple[int, int], scale: Array | None,
        regular: tuple[int, int, int],
    ) -> None:  # fmt: skip
        x, y = self.layout(step.inputs[0]), self.new(step.output)
        pairs = all(np.array_equal(each, 2 * np.indices(each.shape).sum(0)) for each in windows)
        # A window that padding cuts down to 2x2 may count the padding in its average.
        pairs = pairs and (scale is None or bool((scale == 0.25).all()))
        self.draft.call(
            "pool", number, step.output, (step.inputs[0],),
            x=self.draft.place(step.inputs[0]), y=self.draft.place(step.output), channels=x.shape[0] * x.shape[1],
            rows=y.shape[2], columns=y.shape[3], x_channel=x.channel, x_row=x.row, y_channel=y.channel, y_row=y.row,
            average=int(scale is not None), row_window=windows[0], column_window=windows[1], row_step=dilation[0],
            column_step=dilation[1], width=x.shape[3], window=regular[0],
            stride=regular[1], left=regular[2], pairs=int(dilation == (1, 1) and pairs), scale=scale, element=x.element,
        )  # fmt: skip

    # Elements

    def unary(self, number: int, step: Step) -> None:
        x, y = self.layout(step.inputs[0]), self.new(step.output)
        activation = step.settings["activation"]
        self.draft.call(
            "unary", number, step.output, (step.inputs[0],),
            x=self.draft.place(step.inputs[0]), y=self.draft.place(step.output), **_rows_of(x, y),
            function=UNARY.index(activation.function), low=activation.low, high=activation.high,
        )  # fmt: skip

    def binary(self, number: int, step: Step) -> None:
        y = self.new(step.output)
        remaining = iter(step.inputs)
        sides = {side: None if side in step.constants else next(remaining) for side in ("a", "b")}
        strides = [self._broadcast(step, side, name, y.shape) for side, name in sides.items()]
        sizes, (a, b, to) = merged(y.shape, *strides, y.strides)
        self._require_dimensions(number, len(sizes))
        self.draft.call(
            "binary", number, step.output, step.inputs,
            **{side: 0 if name is None else self.draft.place(name) for side, name in sides.items()},
            y=self.draft.place(step.output), a_constant=_flat_constant(step, "a"), b_constant=_flat_constant(step, "b"),
            size=_padded(sizes, 1), a_stride=_padded(a, 0), b_stride=_padded(b, 0), y_stride=_padded(to, 0),
            function=BINARY.index(step.settings["function"]), element=y.element,
        )  # fmt: skip

    def _broadcast(self, step: Step, side: str, name: str | None, shape: Shape) -> tuple[int, ...]:
        if name is None:
            own, strides = step.constants[side].shape, contiguous_strides(step.constants[side].shape, 1)
        else:
            own, strides = self.layout(name).shape, self.layout(name).strides
        kept = tuple(0 if length == 1 else stride for length, stride in zip(own, strides, strict=True))
        return (0,) * (len(shape) - len(own)) + kept

    # Arrangement

    def reshape(self, number: int, step: Step) -> None:
        packed = self.contiguous(number, step.inputs[0])
        layout = self.new(step.output)
        if layout.is_contiguous:
            self.draft.view(step.output, packed, layout)
        else:
            strides = contiguous_strides(layout.shape, layout.element)
            self.copy(number, (packed, 0, strides), (step.output, 0, layout.strides), layout.shape)

    def expand(self, number: int, step: Step) -> None:
        y = self.new(step.output)
        strides = self._broadcast(step, "", step.inputs[0], y.shape)
        self.copy(number, (step.inputs[0], 0, strides), (step.output, 0, y.strides), y.shape)

    def transpose(self, number: int, step: Step) -> None:
        x, y = self.layout(step.inputs[0]), self.new(step.output)
        strides = [x.strides[axis] for axis in step.settings["permutation"]]
        self.copy(number, (step.inputs[0], 0, strides), (step.output, 0, y.strides), y.shape)

    def concat(self, number: int, step: Step) -> None:
        y, axis, done = self.new(step.output), step.settings["axis"], 0
        for name in step.inputs:
            x = self.layout(name)
            self.copy(number, (name, 0, x.strides), (step.output, done * y.strides[axis], y.strides), x.shape)
            done += x.shape[axis]

    def slice(self, number: int, step: Step) -> None:
        x, y, axis = self.layout(step.inputs[0]), self.new(step.output), step.settings["axis"]
        strides = list(x.strides)
        strides[axis] *= step.settings["step"]
        start = step.settings["start"] * x.strides[axis]
        self.copy(number, (step.inputs[0], start, strides), (step.output, 0, y.strides), y.shape)

    def constant(self, number: int, step: Step) -> None:
        target = self.write(number, step.output)
        value = np.ascontiguousarray(step.constants["value"])
        place, element = self.draft.place(target), self.draft.element
        self.draft.call("constant", number, target, (), y=place, count=value.size, value=value, element=element)
        self.written(number, target, step.output)

    # Reductions and products

    def softmax(self, number: int, step: Step) -> None:
        x, target = self.contiguous(number, step.inputs[0]), self.write(number, step.output)
        shape, axis = self.layout(x).shape, step.settings["axis"] % len(self.layout(x).shape)
        self.draft.call(
            "softmax", number, target, (x,),
            x=self.draft.place(x), y=self.draft.place(target), outer=prod(shape[:axis]), count=shape[axis],
            floats=prod(shape[axis + 1 :]) * self.draft.element,
        )  # fmt: skip
        self.written(number, target, step.output)

    def layer_norm(self, number: int, step: Step) -> None:
        x, target = self.contiguous(number, step.inputs[0]), self.write(number, step.output)
        count = prod(self.layout(x).shape[-step.settings["dimensions"] :])
        self.draft.call(
            "layer_norm", number, target, (x,),
            x=self.draft.place(x), y=self.draft.place(target), rows=prod(self.layout(x).shape) // count, count=count,
            weight=np.ascontiguousarray(step.constants["weight"]), bias=np.ascontiguousarray(step.constants["bias"]),
            epsilon=step.settings["epsilon"], element=self.draft.element,
        )  # fmt: skip
        self.written(number, target, step.output)

    def mean(self, number: int, step: Step) -> None:
        x, target = self.layout(step.inputs[0]), self.write(number, step.output)
        axes = {axis % len(x.shape) for axis in step.settings["axes"]}
        kept = [axis for axis in range(len(x.shape)) if axis not in axes]
        size = tuple(x.shape[axis] for axis in kept)
        to = contiguous_strides(size, self.draft.element)
        sizes, (walk, other) = merged(size, tuple(x.strides[axis] for axis in kept), to)
        reduced, (inner,) = merged(tuple(x.shape[a] for a in sorted(axes)), tuple(x.strides[a] for a in sorted(axes)))
        self._require_dimensions(number, max(len(sizes), len(reduced)))
        self.draft.call(
            "mean", number, target, (step.inputs[0],),
            x=self.draft.place(step.inputs[0]), y=self.draft.place(target), size=_padded(sizes, 1),
            x_stride=_padded(walk, 0), y_stride=_padded(other, 0), reduced=_padded(reduced, 1),
            reduced_stride=_padded(inner, 0), scale=1 / max(1, prod(x.shape[axis] for axis in axes)),
            element=self.draft.element,
        )  # fmt: skip
        self.written(number, target, step.output)

    def matmul(self, number: int, step: Step) -> None:
        a, b = (self.contiguous(number, name) for name in step.inputs)
        target = self.write(number, step.output)
        shape = self.layout(target).shape
        (rows, inner), columns = self.layout(a).shape[-2:], self.layout(b).shape[-1]
        batch = shape[:-2]
        walks = [_batch_strides(self.layout(name), batch) for name in (a, b, target)]
        sizes, (of_a, of_b, of_y) = merged(batch, *walks)
        if len(sizes) > 3:
            raise EngineError(f"{shown(step.name)}: a product over {len(sizes)} batch dimensions; at most 3 are run")
        self.draft.call(
            "matmul", number, target, (a, b),
            a=self.draft.place(a), b=self.draft.place(b), y=self.draft.place(target), batch=_padded(sizes, 1, 3),
            a_batch=_padded(of_a, 0, 3), b_batch=_padded(of_b, 0, 3), y_batch=_padded(of_y, 0, 3), rows=rows,
            inner=inner, columns=columns, element=self.draft.element,
        )  # fmt: skip
        self.written(number, target, step.output)


KINDS: Mapping[str, Callable[[Drafter, int, Step], None]] = {
    "conv": Drafter.conv, "linear": Drafter.linear, "pool": Drafter.pool, "adaptive_pool": Drafter.adaptive_pool,
    "unary": Drafter.unary, "binary": Drafter.binary, "reshape": Drafter.reshape, "expand": Drafter.expand,
    "transpose": Drafter.transpose, "concat": Drafter.concat, "slice": Drafter.slice, "constant": Drafter.constant,
    "softmax": Drafter.softmax, "layer_norm": Drafter.layer_norm, "mean": Drafter.mean, "matmul": Drafter.matmul,
}  # fmt: skip


def halos_of(steps: Steps) -> dict[str, Halo]:
    """The padding that the convolutions of a map read around it."""
    found: dict[str, Halo] = {}
    for step in steps.steps:
        if step.kind == "conv":
            before = found.get(step.inputs[0], NO_HALO)
            top, left, bottom, right = (max(pair) for pair in zip(before, step.settings["pads"], strict=True))
            found[step.inputs[0]] = (top, left, bottom, right)
    return found


def as_map(layout: Layout) -> dict[str, int]:
    """A value as channels of rows: as few as its strides allow."""
    sizes, (walk,) = merged(layout.shape, layout.strides)
    sizes, walk = ([1] * (3 - len(sizes)) + sizes)[-3:], ([0] * (3 - len(walk)) + walk)[-3:]
    if sizes[2] > 1 and walk[2] != layout.element:
        # The elements of a row lie apart: each is a row of its own.
        sizes, walk = [*sizes[1:], 1], [*walk[1:], 0]
    return {
        "channels": sizes[0], "rows": sizes[1], "columns": sizes[2], "channel": walk[0], "row": walk[1],
        "element": layout.element,
    }  # fmt: skip


def _rows_of(x: Layout, y: Layout) -> dict[str, int]:
    """Two values of one shape as planes of contiguous rows."""
    if len(x.shape) != 4:
        floats = prod(x.shape) * x.element
        return {"planes": 1, "rows": 1, "floats": floats, "x_plane": 0, "x_row": 0, "y_plane": 0, "y_row": 0}
    planes, (rows, columns) = x.shape[0] * x.shape[1], x.shape[2:]
    return {
        "planes": planes, "rows": rows, "floats": columns * x.element, "x_plane": x.channel, "x_row": x.row,
        "y_plane": y.channel, "y_row": y.row,
    }  # fmt: skip


def windows(outputs: int, size: int, kernel: int, stride: int, dilation: int, pad: int) -> Array:
    """First and end of each window inside of the map, in steps of the dilation."""
    first = np.arange(outputs) * stride - pad
    # The first place inside of the map that the dilated window has.
    begin = first + np.maximum(0, -(first // dilation)) * dilation
    end = np.minimum(first + (kernel - 1) * dilation + 1, size)
    return np.ascontiguousarray(np.stack([begin, np.maximum(begin, end)], 1), np.int32)


def _flat_constant(step: Step, side: str) -> Array | None:
    return np.ascontiguousarray(step.constants[side], np.float32) if side in step.constants else None


def _batch_strides(layout: Layout, batch: Shape) -> tuple[int, ...]:
    own, strides = layout.shape[:-2], layout.strides[:-2]
    kept = tuple(0 if length == 1 else stride for length, stride in zip(own, strides, strict=True))
    return (0,) * (len(batch) - len(own)) + kept


def _padded(values: Sequence[int], fill: int, count: int = DIMENSIONS) -> list[int]:
    return [fill] * (count - len(values)) + list(values)

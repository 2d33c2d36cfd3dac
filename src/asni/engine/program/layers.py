"""Calls for convolutions and linear layers. A linear layer is a convolution of 1x1 over a map of its rows."""

from typing import Any

import numpy as np

from asni.engine.graph import Array
from asni.engine.program.calls import Draft, Place
from asni.engine.program.choices import Choice
from asni.engine.program.geometry import Planes, Taps, Window, taps_in_place, taps_in_planes, taps_of_pixel
from asni.engine.program.layouts import Layout
from asni.engine.program.tables import dense_table, sparse_table, winograd_table
from asni.engine.program.types import FUSED
from asni.engine.steps import Step
from asni.errors import EngineError, shown

MOST_FLOATS = 2**31
"""What offsets of 32 bits reach."""


class Layer:
    """One convolution between maps of a draft; `zeros` says that zero weights count like any others."""

    def __init__(
        self, draft: Draft, number: int, step: Step, maps: tuple[str, str, str | None], window: Window, *, zeros: bool
    ) -> None:
        self.draft, self.number, self.step, self.window, self.zeros = draft, number, step, window, zeros
        self.x, self.y, self.residual = maps
        self.weight: Array = step.constants["weight"].reshape(*step.constants["weight"].shape[:2], *window.kernel)
        self.bias: Array = np.ascontiguousarray(step.constants["bias"])

    def emit(self, choice: Choice) -> None:
        """Add the calls of the chosen kernel, once for every item of a fixed batch."""
        for item in range(self._layout(self.x).shape[0]):
            getattr(self, f"_{choice.kernel}")(choice, item)

    def _layout(self, name: str) -> Layout:
        return self.draft.layouts[name]

    def _reads(self, *more: str) -> tuple[str, ...]:
        return (*(more or (self.x,)), *((self.residual,) if self.residual else ()))

    def _at(self, name: str, item: int, more: int = 0) -> Place:
        return self.draft.place(name, item * self._layout(name).strides[0] + more)

    def _ending(self, item: int) -> dict[str, Any]:
        """The residual and the activation."""
        activation = self.step.settings.get("activation")
        function, low, high = (activation.function, activation.low, activation.high) if activation else ("none", 0, 0)
        residual = self._at(self.residual, item) if self.residual else -1
        return {"residual": residual, "activation": FUSED.index(function), "low": low, "high": high}

    def positions(self, item: int, vector: int) -> dict[str, Any]:
        """Fields of `Positions`: where outputs lie, in rows of vectors of so many lanes."""
        y = self._layout(self.y)
        residual = self._layout(self.residual) if self.residual else y
        plain = self.draft.mode == "plain"
        return {
            "y": self._at(self.y, item),
            "rows": 1 if plain else y.shape[2],
            "columns": -(-y.shape[2] * y.shape[3] // vector) if plain else y.shape[3],
            "x_row": 0 if plain else self.window.stride[0] * self._layout(self.x).row,
            "x_column": vector if plain else self.window.stride[1] * y.element,
            "y_row": 0 if plain else y.row,
            "y_channel": y.channel,
            "residual_row": 0 if plain else residual.row,
            "residual_channel": residual.channel,
            "gate": -1,
            "channels": y.shape[1],
            "pixels": y.shape[2] * y.shape[3] if plain else y.channel,
            **self._ending(item),
        }

    def values(self, table: Array) -> Array:
        """What a kernel reads in place of a table of weights."""
        return table

    def winograd_values(self, pack: int) -> Array:
        """The transformed weights in packs of output channels."""
        return winograd_table(self.weight, pack)

    def _inputs(self, choice: Choice, item: int) -> tuple[Taps, str, Place]:
        """Where the kernel reads: taps, the value and its place. "plain" first copies the map, shifted."""
        x, y, window = self._layout(self.x), self._layout(self.y), self.window
        outputs = (y.shape[2], y.shape[3])
        if self.draft.mode == "lanes" or window.is_pointwise:
            before = window.top * x.row + window.left * x.element
            return taps_in_place(window, x, outputs), self.x, self._at(self.x, item, -before)
        taps, planes = taps_in_planes(window, x, outputs, self.draft.machine, whole=choice.whole)
        if planes.floats > MOST_FLOATS:
            raise EngineError(f"{shown(self.step.name)}: its inputs take more than 8 GB, which is too large a map.")
        copies = self.draft.flat(planes.floats)
        self._shift(planes, copies, item)
        return taps, copies, self.draft.place(copies)

    def _shift(self, planes: Planes, copies: str, item: int) -> None:
        x = self._layout(self.x)
        pixels = self._layout(self.y).shape[2] * self._layout(self.y).shape[3]
        if planes.mask is not None:
            # Copies begin and end outside of the map, in memory of other values.
            distances = planes.kinds @ np.array([x.row, 1])
            self.draft.need_margin(int(max(-distances.min(), distances.max() + planes.stride - x.channel)))
        self.draft.call(
            "shift", self.number, copies, (self.x,),
            x=self._at(self.x, item), y=self.draft.place(copies), channels=x.shape[1], kinds=len(planes.kinds),
            kind=planes.kinds, mask=planes.mask, rows=planes.rows, columns=planes.columns,
            row_step=self.window.stride[0], column_step=self.window.stride[1], x_channel=x.channel, x_row=x.row,
            height=x.shape[2], width=x.shape[3], y_plane=planes.stride,
            vector=self.draft.machine.vector(pixels),
        )  # fmt: skip

    def _sparse(self, choice: Choice, item: int) -> None:
        taps, read, place = self._inputs(choice, item)
        start, offset, value = sparse_table(self.weight, taps, self.window.groups, choice.blocks, zeros=self.zeros)
        vector, groups, rows, columns = choice.tile
        self.draft.call(
            "sparse", self.number, self.y, self._reads(read),
            x=place, **self.positions(item, vector), blocks=choice.blocks, start=start, offset=offset,
            value=self.values(value), bias=self.bias, vector=vector, tile_groups=groups, tile_rows=rows,
            tile_columns=columns,
        )  # fmt: skip

    def _dense(self, choice: Choice, item: int) -> None:
        taps, read, place = self._inputs(choice, item)
        pack, groups, rows, columns = choice.tile
        offset, weight = dense_table(self.weight, taps, self.window.groups, pack)
        self.draft.call(
            "dense", self.number, self.y, self._reads(read),
            x=place, **self.positions(item, self.draft.machine.lanes), convolution_groups=self.window.groups,
            inputs=offset.shape[1], block=choice.blocks, offset=offset, weight=self.values(weight), bias=self.bias,
            tile_channels=pack, tile_groups=groups, tile_rows=rows, tile_columns=columns,
        )  # fmt: skip

    def winograd_fields(self, choice: Choice, item: int) -> dict[str, Any]:
        """The fields of `Winograd`, but for weights and bias."""
        x, y = self._layout(self.x), self._layout(self.y)
        residual = self._layout(self.residual) if self.residual else y
        return {
            "x": self._at(self.x, item), **self.positions(item, y.element), "rows": y.shape[2], "columns": y.shape[3],
            "x_row": x.row, "y_row": y.row, "residual_row": residual.row, "inputs": x.shape[1], "x_channel": x.channel,
            "height": x.shape[2], "width": x.shape[3], "top": self.window.top, "left": self.window.left,
            "lanes_are_items": int(self.draft.mode == "lanes"), "block": choice.blocks,
        }  # fmt: skip

    def _winograd(self, choice: Choice, item: int) -> None:
        weight = self.winograd_values(choice.tile[0])
        fields = self.winograd_fields(choice, item)
        self.draft.call("winograd", self.number, self.y, self._reads(), **fields, weight=weight, bias=self.bias)

    def _sparse_row(self, choice: Choice, item: int) -> None:
        taps = taps_of_pixel(self.window, self._layout(self.x))
        start, offset, value = sparse_table(self.weight, taps, self.window.groups, 1, zeros=self.zeros)
        wide = bool(len(offset)) and int(offset.max()) > np.iinfo(np.uint16).max
        self.draft.call(
            "sparse_row", self.number, self.y, self._reads(),
            x=self._at(self.x, item), y=self._at(self.y, item), channels=len(self.bias), start=start,
            offset=offset if wide else offset.astype(np.uint16), wide=int(wide), value=value, bias=self.bias,
            **self._ending(item),
        )  # fmt: skip

    def _dense_row(self, choice: Choice, item: int) -> None:
        x, inputs = self._layout(self.x), self.weight.shape[1]
        taps = taps_of_pixel(self.window, x)
        seen = np.flatnonzero(taps.seen)
        read, place = self.x, self._at(self.x, item, int(taps.offset[0, seen[0]]) if len(seen) else 0)
        if len(seen) > 1 or x.channel != 1:
            read = self.draft.flat(len(seen) * inputs)
            for row, column in enumerate(seen):
                self._gather(self._at(self.x, item, int(taps.offset[0, column])), read, row * inputs, x.channel)
            place = self.draft.place(read)
        # Input channels of one place after the other.
        weight = self.weight.reshape(*self.weight.shape[:2], -1)[:, :, seen].transpose(0, 2, 1)
        self.draft.call(
            "dense_row", self.number, self.y, self._reads(read),
            x=place, y=self._at(self.y, item), channels=len(self.bias), inputs=len(seen) * inputs,
            weight=np.ascontiguousarray(weight), bias=self.bias, **self._ending(item),
        )  # fmt: skip

    def _gather(self, place: Place, to: str, start: int, stride: int) -> None:
        """Put one pixel of all channels side by side."""
        channels = self.weight.shape[1]
        self.draft.call(
            "copy", self.number, to, (self.x,),
            x=place, y=self.draft.place(to, start), size=[1, 1, 1, 1, 1, channels], x_stride=[0, 0, 0, 0, 0, stride],
            y_stride=[0, 0, 0, 0, 0, 1], element=1,
        )  # fmt: skip

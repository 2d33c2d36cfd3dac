"""Calls for the forward and backward pass of a convolution or linear layer."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from asni.engine.graph import Array
from asni.engine.program.calls import Draft
from asni.engine.program.choices import Choice
from asni.engine.program.geometry import Window
from asni.engine.program.layers import Layer
from asni.engine.steps import Activation
from asni.engine.steps import Step as EngineStep
from asni.sparse.network.choices import Plan
from asni.sparse.network.tables import Walk
from asni.sparse.network.vector import Vector


@dataclass(frozen=True)
class Site:
    """A layer of the network: its maps by name, its weight, and how it is trained."""

    number: int
    name: str
    x: str
    y: str
    window: Window
    weight: str
    bias: str | None
    relu: bool
    shape: tuple[int, ...]
    """Of the weight: output channels, input channels of a group, height, width."""
    is_linear: bool
    walk: Walk
    plan: Plan


@dataclass(frozen=True)
class Target:
    """Whether a gradient is added to what its value has, and whether it is kept where the value is above zero."""

    accumulate: bool
    mask: bool


class TrainedLayer(Layer):
    """A forward kernel whose tables are filled from the vector of trained numbers in every step.

    In place of weights it is made with their places in the vector, plus one; zeros are pruned weights.
    """

    def __init__(
        self, draft: Draft, number: int, maps: tuple[str, str, str | None], window: Window, *, vector: Vector,
        places: Array, bias: Array, relu: bool, gate: str | None = None,
    ) -> None:  # fmt: skip
        settings = {"activation": Activation("relu")} if relu else {}
        step = EngineStep("conv", "", (maps[0],), maps[1], settings, {"weight": places, "bias": bias})
        super().__init__(draft, number, step, maps, window, zeros=False)
        self.vector, self.gate = vector, gate

    def values(self, table: Array) -> Array:
        to = np.zeros(table.shape, np.float32)
        index = np.ascontiguousarray(table - 1, np.int32)
        self.draft.call(
            "refresh", self.number, _TABLES, (), **{"from": self.vector.weights}, index=index, to=to, count=to.size
        )
        return to

    def winograd_values(self, pack: int) -> Array:
        outputs, inputs = self.weight.shape[:2]
        to = np.zeros((36, -(-outputs // pack), inputs, pack), np.float32)
        index = np.ascontiguousarray(self.weight.reshape(outputs, inputs, 9) - 1, np.int32)
        self.draft.call(
            "winograd_weights", self.number, _TABLES, (),
            **{"from": self.vector.weights}, index=index, to=to, outputs=outputs, inputs=inputs, pack=pack,
        )  # fmt: skip
        return to

    def _reads(self, *more: str) -> tuple[str, ...]:
        return (*super()._reads(*more), *((self.gate,) if self.gate else ()))

    def positions(self, item: int, vector: int) -> dict[str, Any]:
        fields = super().positions(item, vector)
        if self.gate is None:
            return fields
        layout = self.draft.layouts[self.gate]
        gate = {"gate": self.draft.place(self.gate), "gate_row": layout.row, "gate_channel": layout.channel}
        return {**fields, **gate}


_TABLES = " tables"
"""Not a value: what fills the tables of weights writes nothing else."""


def places_of(site: Site, vector: Vector) -> Array:
    """For every weight of a layer its place in the vector, plus one; 0 if it is pruned."""
    places = np.zeros(int(np.prod(site.shape)), np.int64)
    places[site.walk.order] = vector.slices[site.weight].start + np.arange(len(site.walk.order)) + 1
    return places.reshape(site.shape)


def forward_calls(draft: Draft, site: Site, vector: Vector) -> None:
    """Compute the outputs of a layer."""
    bias = np.zeros(site.shape[0], np.float32) if site.bias is None else vector.of(site.bias)
    layer = TrainedLayer(
        draft, site.number, (site.x, site.y, None), site.window,
        vector=vector, places=places_of(site, vector), bias=bias, relu=site.relu,
    )  # fmt: skip
    layer.emit(site.plan.forward)


def backward_calls(draft: Draft, site: Site, vector: Vector, dx: tuple[str, Target] | None, dy: str) -> None:
    """Compute the gradients of a layer's weights and bias, and of its inputs unless `dx` is None."""
    if site.plan.weights is None:
        _weights(draft, site, vector, dx if site.plan.inputs is None else None, dy)
    else:
        _weights_by_winograd(draft, site, vector, site.plan.weights, dy)
    if site.plan.inputs is not None and dx is not None:
        _inputs_by_forward_kernel(draft, site, vector, site.plan.inputs, dx, dy)
    if site.bias is not None:
        layout = draft.layouts[dy]
        draft.call(
            "channel_sums", site.number, _TABLES, (dy,),
            dy=draft.place(dy), dy_channel=layout.channel, dy_row=layout.row, channels=layout.shape[1],
            rows=layout.shape[2], columns=layout.shape[3], sums=vector.gradient_of(site.bias),
        )  # fmt: skip


def _weights(draft: Draft, site: Site, vector: Vector, dx: tuple[str, Target] | None, dy: str) -> None:
    x, plan, window = draft.layouts[site.x], site.plan, site.window
    step = (1, 1) if site.is_linear else window.stride
    done = vector.slices[site.weight].start
    reads = (site.x, dy, *((dx[0],) if dx else ()))
    for phase in site.walk.phases:
        fields: dict[str, Any] = {"dx": -1}
        if dx is not None:
            to = draft.layouts[dx[0]]
            fields = {
                "dx": draft.place(dx[0], phase.row * to.row + phase.column * to.element),
                "dx_row": step[0] * to.row,
                "dx_column": step[1] * to.element,
                "dx_offset": _channels(site, to),
                "accumulate": int(dx[1].accumulate),
                "mask": int(dx[1].mask),
            }
        place = draft.place(site.x, phase.row * x.row + phase.column * x.element)
        groups, rows, columns = _fitting(plan.tile, phase.rows, phase.columns)
        draft.call(
            "sparse_backward", site.number, dx[0] if dx else _TABLES, reads,
            x=place, dy=draft.place(dy), rows=phase.rows, columns=phase.columns, x_row=step[0] * x.row,
            x_column=step[1] * x.element, dy_row=draft.layouts[dy].row, channels=len(_channels(site, x)),
            x_offset=_channels(site, x), blocks=plan.blocks, start=phase.start, offset=phase.offset,
            value=vector.weights[done:], gradient=vector.gradient[0, done:], gradient_row=vector.gradient.shape[1],
            chunk=plan.chunk, tiles_at_once=plan.tiles_at_once, tile_groups=groups, tile_rows=rows,
            tile_columns=columns, **fields,
        )  # fmt: skip
        done += len(phase.offset)


def _weights_by_winograd(draft: Draft, site: Site, vector: Vector, choice: Choice, dy: str) -> None:
    places = places_of(site, vector)
    layer = TrainedLayer(
        draft, site.number, (site.x, dy, None), site.window,
        vector=vector, places=places, bias=np.zeros(0, np.float32), relu=False,
    )  # fmt: skip
    draft.call(
        "winograd_gradient", site.number, _TABLES, (site.x, dy), **layer.winograd_fields(choice, 0),
        index=np.ascontiguousarray(places - 1, np.int32), gradient=vector.gradient,
        gradient_row=vector.gradient.shape[1],
    )  # fmt: skip


def _fitting(tile: tuple[int, int, int], rows: int, columns: int) -> tuple[int, int, int]:
    """The tile, or single positions where a phase is smaller."""
    groups, down, right = tile
    return tile if down <= rows and right <= columns else (groups if down * right == 1 else 1, 1, 1)


def _channels(site: Site, layout: Any) -> Array:
    """Where each input channel of the backward pass begins: each pixel of a map that a linear layer reads is one."""
    sizes = zip(layout.shape[1:], layout.strides[1:], strict=True)
    channel, row, column = (np.arange(size) * step for size, step in sizes)
    found = channel if not site.is_linear else (channel[:, None, None] + row[:, None] + column).ravel()
    return np.ascontiguousarray(found, np.int32)


def _inputs_by_forward_kernel(
    draft: Draft, site: Site, vector: Vector, choice: Choice, dx: tuple[str, Target], dy: str
) -> None:
    """The gradient of the inputs is a convolution of the outputs' gradient with the kernels turned around."""
    name, target = dx
    turned = np.ascontiguousarray(places_of(site, vector)[:, :, ::-1, ::-1].transpose(1, 0, 2, 3))
    window = Window(site.window.kernel, (1, 1), (1, 1), 2 - site.window.top, 2 - site.window.left, 1, True)
    TrainedLayer(
        draft, site.number, (dy, name, name if target.accumulate else None), window,
        vector=vector, places=turned, bias=np.zeros(len(turned), np.float32), relu=False,
        gate=site.x if target.mask else None,
    ).emit(choice)  # fmt: skip

"""Write the calls of a training step: forward, loss, and backward in the opposite order.

Every value that the backward pass needs has a gradient. Of the steps that read a value, each adds its part to the
value's gradient; the last one to do so keeps it where the value is above zero, if the value comes out of a ReLU. So the
gradient that the producer of a value finds is that before its ReLU.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from asni.engine.graph import Array
from asni.engine.program.calls import Draft
from asni.engine.program.drafting import as_map
from asni.engine.program.layouts import NO_HALO, Halo, layout_of
from asni.sparse.network.layers import Site, Target, backward_calls, forward_calls
from asni.sparse.network.vector import Vector
from asni.sparse.steps import Step, Steps, UnsupportedError

IMAGES, LABELS, GRADIENT = range(3)
"""The arrays that a program reads."""
LOGITS, LOSS = range(2)
"""The arrays that a program writes."""


class Values:
    """Where the values of a network and their gradients lie.

    A flattened map that linear layers read is the map itself, halo and all; for others it is copied.
    """

    def __init__(self, steps: Steps) -> None:
        self.steps = steps
        self.maps = {steps.input: steps.input}
        self.relu: dict[str, bool] = {steps.input: False}
        linear = Counter(name for step in steps.steps if step.kind == "linear" for name in step.inputs)
        reads = Counter([steps.output, *(name for step in steps.steps for name in step.inputs)])
        for step in steps.steps:
            is_view = step.kind == "flatten" and linear[step.output] == reads[step.output]
            self.maps[step.output] = self.maps[step.inputs[0]] if is_view else step.output
            self.relu.setdefault(self.maps[step.output], bool(step.settings.get("relu", False)))
        self.readers = Counter(
            self.maps[name] for step in steps.steps if not self.is_view(step.output) for name in step.inputs
        )
        self.replaced = self._replaced()
        """The maps whose gradients lie in their place."""

    def shape(self, name: str) -> tuple[int, int, int, int]:
        """The shape of a value as it is read, which may be flattened."""
        return self.steps.shapes[name]

    def is_view(self, name: str) -> bool:
        """Whether a value is another one."""
        return self.maps[name] != name

    def _replaced(self) -> set[str]:
        """The maps that only a 2x2 pool reads: backward, it reads each place just before it writes the gradient there.

        It also reads its own output, which must still be there.
        """
        pools = [step for step in self.steps.steps if step.kind == "pool"]
        outputs = {step.output for step in pools}
        names = {self.maps[step.inputs[0]] for step in pools if _tiles_by_pairs(step, self.shape(step.inputs[0]))}
        return {name for name in names - outputs if self.readers[name] == 1}


def gradient(name: str) -> str:
    """The name of a value's gradient."""
    return f"gradient of {name}"


class Drafter:
    """Writes the calls of all steps; `sites` are the layers by the number of their step."""

    def __init__(self, values: Values, draft: Draft, vector: Vector, sites: Mapping[int, Site]) -> None:
        self.values, self.draft, self.vector, self.sites = values, draft, vector, sites
        self.steps = values.steps
        self.scale, self.seed = np.ones(1), np.zeros(1, np.uint64)
        self.statistics: dict[int, tuple[Array, Array]] = {}
        self.buffers: dict[str, Array] = {}
        self._written: Counter[str] = Counter()

    def forward(self) -> None:
        """From the images to the last value."""
        entered = self.values.maps[self.steps.input]
        self.draft.call("input", -1, entered, (), index=IMAGES, **self._batch(entered), blank=0)
        for number, step in enumerate(self.steps.steps):
            _FORWARD[step.kind](self, number, step)

    def leave(self) -> None:
        """Give the logits to the caller."""
        output = self.values.maps[self.steps.output]
        self.draft.call("output", -1, " output", (output,), index=LOGITS, **self._batch(output), blank=0)

    def enter_gradient(self) -> None:
        """Take the gradient of the logits from the caller."""
        name = gradient(self.values.maps[self.steps.output])
        self.draft.call("input", -1, name, (), index=GRADIENT, **self._batch(name), blank=1)

    def loss(self) -> None:
        """The cross entropy and its gradient."""
        output, shape = self.values.maps[self.steps.output], self.values.shape(self.steps.output)
        self.draft.call(
            "cross_entropy", -1, gradient(output), (output,),
            **self._map("x", output, shape), **self._map("dx", gradient(output), shape),
            classes=shape[1], labels=LABELS, output=LOSS, scale=self.scale,
        )  # fmt: skip

    def backward(self) -> None:
        """From the gradient of the logits to those of all parameters."""
        self._end_with_relu()
        for number, step in reversed([*enumerate(self.steps.steps)]):
            _BACKWARD[step.kind](self, number, step)

    def _end_with_relu(self) -> None:
        """Keep the gradient of the logits where they are above zero, if they come out of a ReLU."""
        output = self.values.maps[self.steps.output]
        if self.values.relu[output]:
            shape, dy = self.values.shape(output), gradient(output)
            da = {**self._map("da", dy), "da_accumulate": 0, **self._map("da_mask", output)}
            self.draft.call(
                "add_backward", -1, dy, (output,),
                **self._map("dy", dy), **da, **self._map("db", None), **self._size(shape),
            )  # fmt: skip

    # Operands

    def _map(self, role: str, name: str | None, shape: tuple[int, ...] | None = None) -> dict[str, Any]:
        """The fields of an operand, in the shape in which the kernel goes through it."""
        if name is None:
            return {role: -1, f"{role}_channel": 0, f"{role}_row": 0}
        layout = self.draft.layouts[name]
        if shape is not None and shape != layout.shape:
            if not layout.is_contiguous:
                raise UnsupportedError(f"{name}: a flattened map that a convolution pads")
            layout = layout_of(shape, "lanes", self.draft.machine)
        return {role: self.draft.place(name), f"{role}_channel": layout.channel, f"{role}_row": layout.row}

    def _size(self, shape: tuple[int, ...]) -> dict[str, int]:
        return {"channels": shape[1], "rows": shape[2], "columns": shape[3]}

    def _batch(self, name: str) -> dict[str, Any]:
        return {"value": self.draft.place(name), **as_map(self.draft.layouts[name])}

    def target(self, name: str) -> tuple[str, Target] | None:
        """The gradient of a map that a step adds its part to; None for the images."""
        if name == self.steps.input:
            return None
        self._written[name] += 1
        is_last = self._written[name] == self.values.readers[name]
        return gradient(name), Target(self._written[name] > 1, is_last and self.values.relu[name])

    def _target(self, role: str, read: str | None, shape: tuple[int, ...]) -> tuple[dict[str, Any], tuple[str, ...]]:
        """The fields of a gradient to write, and the values that it touches."""
        name = None if read is None else self.values.maps[read]
        found = None if name is None else self.target(name)
        if name is None or found is None:
            return {**self._map(role, None), f"{role}_accumulate": 0, **self._map(f"{role}_mask", None)}, ()
        to, how = found
        mask = self._map(f"{role}_mask", name if how.mask else None, shape)
        fields = {**self._map(role, to, shape), f"{role}_accumulate": int(how.accumulate), **mask}
        return fields, (to, *((name,) if how.mask else ()))

    # Layers

    def layer(self, number: int, step: Step) -> None:
        forward_calls(self.draft, self.sites[number], self.vector)

    def layer_backward(self, number: int, step: Step) -> None:
        site = self.sites[number]
        backward_calls(self.draft, site, self.vector, self.target(site.x), gradient(site.y))

    # Batch norm

    def batch_norm(self, number: int, step: Step) -> None:
        shape = self.values.shape(step.output)
        names = [self.values.maps[name] for name in step.inputs]
        self.statistics[number] = (np.zeros(shape[1], np.float32), np.zeros(shape[1], np.float32))
        mean, inverse = self.statistics[number]
        self.draft.call(
            "batch_norm", number, step.output, tuple(names),
            **self._map("x", names[0], shape), **self._map("residual", names[1] if len(names) > 1 else None, shape),
            **self._map("y", step.output, shape), **self._size(shape), relu=int(step.settings["relu"]), training=1,
            weight=self._trained(step, "weight"), bias=self._trained(step, "bias"), mean=mean, inverse=inverse,
            running_mean=self.buffers.get(step.parameters.get("running_mean", "")),
            running_var=self.buffers.get(step.parameters.get("running_var", "")),
            momentum=step.settings["momentum"] or 0.0, epsilon=step.settings["epsilon"],
        )  # fmt: skip

    def batch_norm_backward(self, number: int, step: Step) -> None:
        shape = self.values.shape(step.output)
        x, dy = self.values.maps[step.inputs[0]], gradient(step.output)
        mean, inverse = self.statistics[number]
        residual = step.inputs[1] if len(step.inputs) > 1 else None
        dx, first = self._target("dx", step.inputs[0], shape)
        dresidual, second = self._target("dresidual", residual, shape)
        self.draft.call(
            "batch_norm_backward", number, dy, (x, *first, *second),
            **self._map("dy", dy, shape), **self._map("x", x, shape), **dx, **dresidual, **self._size(shape),
            weight=self._trained(step, "weight"), mean=mean, inverse=inverse,
            dweight=self._gradient(step, "weight"), dbias=self._gradient(step, "bias"),
        )  # fmt: skip

    def _trained(self, step: Step, role: str) -> Array | None:
        return self.vector.of(step.parameters[role]) if role in step.parameters else None

    def _gradient(self, step: Step, role: str) -> Array | None:
        return self.vector.gradient_of(step.parameters[role]) if role in step.parameters else None

    # Elements

    def add(self, number: int, step: Step) -> None:
        shape = self.values.shape(step.output)
        names = [self.values.maps[name] for name in step.inputs]
        self.draft.call(
            "add", number, step.output, tuple(names),
            **self._map("a", names[0], shape), **self._map("b", names[1] if len(names) > 1 else None, shape),
            **self._map("y", step.output, shape), **self._size(shape), relu=int(step.settings["relu"]),
        )  # fmt: skip

    def add_backward(self, number: int, step: Step) -> None:
        shape, dy = self.values.shape(step.output), gradient(step.output)
        names = [name for name in step.inputs if self.values.maps[name] != self.steps.input]
        if not names:
            return
        da, first = self._target("da", names[0], shape)
        db, second = self._target("db", names[1] if len(names) > 1 else None, shape)
        self.draft.call(
            "add_backward", number, dy, (*first, *second),
            **self._map("dy", dy, shape), **da, **db, **self._size(shape),
        )  # fmt: skip

    def drop_out(self, number: int, step: Step) -> None:
        shape, x = self.values.shape(step.output), self.values.maps[step.inputs[0]]
        self.draft.call(
            "drop_out", number, step.output, (x,),
            **self._map("x", x, shape), **self._map("y", step.output, shape), **self._size(shape),
            probability=step.settings["probability"], seed=self.seed, salt=number,
        )  # fmt: skip

    def drop_out_backward(self, number: int, step: Step) -> None:
        shape, dy = self.values.shape(step.output), gradient(step.output)
        dx, touched = self._target("dx", step.inputs[0], shape)
        if touched:
            self.draft.call(
                "drop_out_backward", number, dy, touched,
                **self._map("dy", dy, shape), **dx, **self._size(shape), probability=step.settings["probability"],
                seed=self.seed, salt=number,
            )  # fmt: skip

    # Pools

    def pool(self, number: int, step: Step) -> None:
        x, y = self.draft.layouts[self.values.maps[step.inputs[0]]], self.draft.layouts[step.output]
        name = self.values.maps[step.inputs[0]]
        self.draft.call(
            "pool", number, step.output, (name,),
            x=self.draft.place(name), y=self.draft.place(step.output), **self._size(y.shape), x_channel=x.channel,
            x_row=x.row, y_channel=y.channel, y_row=y.row, average=int(step.settings["mode"] == "average"),
            **_windows(step), width=x.shape[3], element=x.element,
        )  # fmt: skip

    def pool_backward(self, number: int, step: Step) -> None:
        name = self.values.maps[step.inputs[0]]
        x, y, dy = self.draft.layouts[name], self.draft.layouts[step.output], gradient(step.output)
        dx, touched = self._target("dx", step.inputs[0], x.shape)
        if not touched:
            return
        is_average = step.settings["mode"] == "average"
        reads = (*touched, *(() if is_average else (name, step.output)))
        self.draft.call(
            "pool_backward", number, dy, reads,
            **self._map("x", None if is_average else name), **self._map("y", None if is_average else step.output),
            **self._map("dy", dy), **dx, **self._size(y.shape), height=x.shape[2], width=x.shape[3],
            average=int(is_average), **_windows(step), pairs=int(_tiles_by_pairs(step, x.shape)),
        )  # fmt: skip

    # Flattened maps

    def flatten(self, number: int, step: Step) -> None:
        if self.values.is_view(step.output):
            return
        shape, name = self.values.shape(step.inputs[0]), self.values.maps[step.inputs[0]]
        self.draft.call(
            "add", number, step.output, (name,),
            **self._map("a", name), **self._map("b", None), **self._map("y", step.output, shape), **self._size(shape),
            relu=0,
        )  # fmt: skip

    def flatten_backward(self, number: int, step: Step) -> None:
        if self.values.is_view(step.output):
            return
        shape, dy = self.values.shape(step.inputs[0]), gradient(step.output)
        da, touched = self._target("da", step.inputs[0], shape)
        if touched:
            self.draft.call(
                "add_backward", number, dy, touched,
                **self._map("dy", dy, shape), **da, **self._map("db", None), **self._size(shape),
            )  # fmt: skip


def _windows(step: Step) -> dict[str, Any]:
    settings = step.settings
    return {
        "row_window": settings["rows"], "column_window": settings["columns"], "row_step": settings["dilation"][0],
        "column_step": settings["dilation"][1], "scale": settings.get("scale"),
    }  # fmt: skip


def _tiles_by_pairs(pool: Step, shape: tuple[int, ...]) -> bool:
    """Whether the windows of a pool are 2x2, do not overlap and leave nothing of its input out."""
    return _are_pairs(pool.settings["rows"], shape[2]) and _are_pairs(pool.settings["columns"], shape[3])


def _are_pairs(windows: Array, size: int) -> bool:
    return np.array_equal(windows.ravel(), np.arange(size) + np.arange(size) % 2) if size % 2 == 0 else False


def layouts_of(values: Values, draft: Draft, halos: Mapping[str, Halo], gradient_halos: Mapping[str, Halo]) -> None:
    """Lay out every map and its gradient, with the zeros around them that layers read."""
    for name in dict.fromkeys(values.maps.values()):
        shape = values.shape(name)
        of_map, of_gradient = (
            layout_of(shape, "lanes", draft.machine, around.get(name, NO_HALO)) for around in (halos, gradient_halos)
        )
        if name in values.replaced:
            # The pool that reads the map needs no zeros around it.
            draft.layouts[name] = of_gradient
            draft.view(gradient(name), of=name, layout=of_gradient)
        else:
            draft.layouts[name], draft.layouts[gradient(name)] = of_map, of_gradient


_Method = Callable[[Drafter, int, Step], None]
_FORWARD: dict[str, _Method] = {
    "conv": Drafter.layer, "linear": Drafter.layer, "batch_norm": Drafter.batch_norm, "add": Drafter.add,
    "drop_out": Drafter.drop_out, "pool": Drafter.pool, "flatten": Drafter.flatten,
}  # fmt: skip
_BACKWARD: dict[str, _Method] = {
    "conv": Drafter.layer_backward, "linear": Drafter.layer_backward, "batch_norm": Drafter.batch_norm_backward,
    "add": Drafter.add_backward, "drop_out": Drafter.drop_out_backward, "pool": Drafter.pool_backward,
    "flatten": Drafter.flatten_backward,
}  # fmt: skip

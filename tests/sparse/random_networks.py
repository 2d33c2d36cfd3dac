"""Random small networks as steps, with a model that holds their parameters and masks of any density."""

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from random import Random
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from asni.engine.graph import Array
from asni.engine.interpreter import bins
from asni.engine.program.drafting import windows
from asni.sparse.steps import Shape, Step, Steps

MOST_ELEMENTS = 400
"""Of one item in a map."""
LEAST_POSITIONS = 6
"""That a batch norm averages over: with two of them, nothing is left of a gradient but rounding."""


@dataclass(frozen=True)
class Drawn:
    """A network, and a batch of images for it."""

    steps: Steps
    model: nn.Module
    masks: dict[str, Tensor]
    images: Array
    labels: Array

    @property
    def classes(self) -> int:
        return self.steps.shapes[self.steps.output][1]


def random_network(random: Random, count: int, items: int) -> Drawn:
    """A network of so many steps and more; what its output does not need is left out."""
    builder = _Builder(random, items)
    for _ in range(count):
        random.choice(_KINDS)(builder)
    builder.end()
    steps = builder.needed()
    used = {name for step in steps.steps for name in step.parameters.values()}
    model = nn.Module()
    for name, value in builder.parameters.items():
        if name in used:
            model.register_parameter(name, nn.Parameter(value))
    for name, value in builder.buffers.items():
        if name in used:
            model.register_buffer(name, value)
    numbers = np.random.default_rng(random.randrange(2**32))
    images = numbers.normal(size=(items, *steps.shapes[steps.input][1:])).astype(np.float32)
    labels = numbers.integers(0, steps.shapes[steps.output][1], items)
    return Drawn(steps, model, {name: mask for name, mask in builder.masks.items() if name in used}, images, labels)


class _Builder:
    """Adds steps one by one."""

    def __init__(self, random: Random, items: int) -> None:
        self.random, self.items = random, items
        self.numbers = np.random.default_rng(random.randrange(2**32))
        self.steps: list[Step] = []
        self.shapes: dict[str, Shape] = {"images": self._map()}
        self.parameters: dict[str, Tensor] = {}
        self.buffers: dict[str, Tensor] = {}
        self.masks: dict[str, Tensor] = {}

    def _map(self) -> Shape:
        random = self.random
        height = random.choice([1, 2, 5, 8, random.randint(1, 10)])
        width = random.choice([height, height, random.randint(1, 10)])
        return 1, random.randint(1, 4), height, width

    def _coin(self, chance: float = 0.5) -> bool:
        return self.random.random() < chance

    def _any(self, *, may_be_padded: bool = False) -> str:
        """A value; the last ones more often, so that steps follow each other. No kernel pads a flattened map."""
        views = {step.output for step in self.steps if step.kind == "flatten"} if may_be_padded else set()
        names = [name for name in self.shapes if name not in views]
        return self.random.choice([names[-1], names[-1], self.random.choice(names)])

    def _like(self, name: str) -> list[str]:
        return [other for other, shape in self.shapes.items() if shape == self.shapes[name]]

    def add_step(self, kind: str, inputs: list[str], shape: Shape, parameters: dict[str, str], **settings: Any) -> str:
        output = f"v{len(self.steps)}"
        self.steps.append(Step(kind, f"step {output}", tuple(inputs), output, settings, parameters))  # type: ignore[arg-type]
        self.shapes[output] = shape
        return output

    # Parameters

    def _weight(self, role: str, *shape: int) -> str:
        """A weight with a mask; some have none, or no nonzero, or an empty row or column."""
        name = f"{role}{len(self.steps)}"
        density = self.random.choice([0.0, 0.1, 0.3, 0.3, 0.6, 1.0])
        mask = self.numbers.random(shape) < density
        if self._coin(0.2):
            mask[self.random.randrange(shape[0])] = False
        if self._coin(0.2):
            mask[:, self.random.randrange(shape[1])] = False
        if density < 1 or self._coin():
            self.masks[name] = torch.from_numpy(mask)
        else:
            mask[:] = True
        size = np.sqrt(1 / max(1.0, mask.sum() / shape[0]))
        self._keep(name, self.numbers.normal(size=shape) * mask * size)
        return name

    def _vector(self, role: str, length: int, *, shift: float = 0.0) -> str:
        name = f"{role}{len(self.steps)}"
        self._keep(name, self.numbers.normal(size=length) * 0.5 + shift)
        return name

    def _keep(self, name: str, values: Array) -> None:
        kept = torch.from_numpy(values.astype(np.float32))
        is_last = values.ndim == 4 and self._coin(0.3)
        self.parameters[name] = kept.to(memory_format=torch.channels_last) if is_last else kept

    def _maybe_bias(self, parameters: dict[str, str], outputs: int) -> dict[str, str]:
        return parameters | ({"bias": self._vector("bias", outputs)} if self._coin(0.6) else {})

    # Steps

    def conv(self) -> None:
        random, x = self.random, self._any(may_be_padded=True)
        _, channels, *size = self.shapes[x]
        groups = random.choice([1, 1, 1, *(each for each in range(2, channels + 1) if channels % each == 0)])
        if self._coin():
            kernel, stride, dilation = (3, 3), (1, 1), (1, 1)
        else:
            most = random.choice([1, 3, 5])
            kernel = random.randint(1, most), random.randint(1, most)
            stride, dilation = ((random.randint(1, most), random.randint(1, most)) for most in (3, 2))
        reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
        before = [random.choice([0, 1, 1, random.randint(0, 3)]) for _ in range(2)]
        after = before if self._coin(0.8) else [random.randint(0, 3) for _ in range(2)]
        after = [max(a, r - n - b) for a, r, n, b in zip(after, reach, size, before, strict=True)]
        out = [(n + b + a - r) // s + 1 for n, b, a, r, s in zip(size, before, after, reach, stride, strict=True)]
        most = max(1, MOST_ELEMENTS // (out[0] * out[1]))
        outputs = groups * random.randint(1, max(1, min(9, most) // groups))
        weight = self._weight("weight", outputs, channels // groups, *kernel)
        self.add_step(
            "conv", [x], (1, outputs, out[0], out[1]), self._maybe_bias({"weight": weight}, outputs),
            stride=stride, dilation=dilation, pads=(*before, *after), groups=groups, relu=self._coin(),
        )  # fmt: skip

    def same(self) -> None:
        """A convolution to a map of the same shape, which a later step may add to its input."""
        x = self._any(may_be_padded=True)
        _, channels, height, width = self.shapes[x]
        weight = self._weight("weight", channels, channels, 3, 3)
        self.add_step(
            "conv", [x], (1, channels, height, width), self._maybe_bias({"weight": weight}, channels),
            stride=(1, 1), dilation=(1, 1), pads=(1, 1, 1, 1), groups=1, relu=self._coin(0.3),
        )  # fmt: skip
        self.random.choice([_Builder.add, _Builder.batch_norm])(self)

    def linear(self) -> None:
        self._linear(self.random.randint(1, 12))

    def _linear(self, outputs: int) -> None:
        x = self._flat()
        weight = self._weight("weight", outputs, self.shapes[x][1])
        parameters = self._maybe_bias({"weight": weight}, outputs)
        self.add_step("linear", [x], (1, outputs, 1, 1), parameters, relu=self._coin(0.4))

    def _flat(self) -> str:
        x = self._any()
        shape = self.shapes[x]
        return x if shape[2:] == (1, 1) else self.add_step("flatten", [x], (1, prod(shape), 1, 1), {})

    def flatten(self) -> None:
        self._flat()

    def batch_norm(self) -> None:
        x = self._any()
        _, channels, height, width = self.shapes[x]
        if self.items * height * width < LEAST_POSITIONS:
            return
        inputs = [x, *(self.random.sample(self._like(x), 1) if self._coin(0.4) else [])]
        parameters = {}
        if self._coin(0.8):
            shift = self.random.choice([1.5, -1.5])
            weight, bias = self._vector("scale", channels, shift=shift), self._vector("bias", channels)
            parameters = {"weight": weight, "bias": bias}
        momentum: float | None = 0.0
        if self._coin(0.8):
            momentum = self.random.choice([0.1, 0.3, None])
            parameters |= self._statistics(channels)
        epsilon = self.random.choice([1e-5, 1e-3])
        self.add_step(
            "batch_norm", inputs, self.shapes[x], parameters, epsilon=epsilon, momentum=momentum, relu=self._coin()
        )

    def _statistics(self, channels: int) -> dict[str, str]:
        roles = ("running_mean", "running_var", "num_batches_tracked")
        names = {role: f"{role}{len(self.steps)}" for role in roles}
        values = (torch.zeros(channels), torch.ones(channels), torch.tensor(0))
        self.buffers |= dict(zip(names.values(), values, strict=True))
        return names

    def add(self) -> None:
        a = self._any()
        inputs = [a] if self._coin(0.2) else [a, self.random.choice(self._like(a))]
        self.add_step("add", inputs, self.shapes[a], {}, relu=len(inputs) == 1 or self._coin())

    def drop_out(self) -> None:
        x = self._any()
        self.add_step("drop_out", [x], self.shapes[x], {}, probability=self.random.choice([0.1, 0.5, 0.8]))

    def pool(self) -> None:
        x = self._any()
        is_whole = self._coin(0.3)
        rows, columns, dilation = self._bins(x) if is_whole else self._windows(x)
        mode = self.random.choice(["max", "average"])
        if mode == "average" and dilation != (1, 1):
            return
        settings = {"mode": mode, "rows": rows, "columns": columns, "dilation": dilation}
        if mode == "average":
            sizes = (np.diff(rows) * np.diff(columns).T).astype(np.float32)
            settings["scale"] = 1 / sizes if is_whole or self._coin() else np.full_like(sizes, 1 / sizes.max())
        self.add_step("pool", [x], (1, self.shapes[x][1], len(rows), len(columns)), {}, **settings)

    def _bins(self, x: str) -> tuple[Array, Array, tuple[int, int]]:
        rows, columns = (
            np.array([(each.start, each.stop) for each in bins(size, self.random.randint(1, size))], np.int32)
            for size in self.shapes[x][2:]
        )
        return rows, columns, (1, 1)

    def _windows(self, x: str) -> tuple[Array, Array, tuple[int, int]]:
        random, found, steps = self.random, [], []
        kernel, stride = (2, 2) if self._coin() else (random.randint(1, 4), random.randint(1, 4))
        for size in self.shapes[x][2:]:
            own = min(kernel, size)
            dilation = random.randint(1, 2) if self._coin(0.2) and (own - 1) * 2 < size else 1
            pad = random.randint(0, own // 2) if self._coin(0.3) else 0
            count = (size + 2 * pad - (own - 1) * dilation - 1) // stride + 1
            found.append(windows(count, size, own, stride, dilation, pad))
            steps.append(dilation)
        return found[0], found[1], (steps[0], steps[1])

    # The end

    def end(self) -> None:
        """Most networks end with a linear layer; without another parameter, all."""
        if self._coin(0.2) and self.steps:
            if self.shapes[last := self.steps[-1].output][2:] != (1, 1):
                self.add_step("flatten", [last], (1, prod(self.shapes[last]), 1, 1), {})
            if any("weight" in step.parameters for step in self.needed().steps):
                return
        self._linear(self.random.randint(2, 6))

    def needed(self) -> Steps:
        output = self.steps[-1].output
        used, kept = {output}, []
        for step in reversed(self.steps):
            if step.output in used:
                used |= set(step.inputs)
                kept.append(step)
        return Steps("images", output, tuple(kept[::-1]), {name: self.shapes[name] for name in used | {"images"}})


_KINDS: tuple[Callable[[_Builder], None], ...] = (
    _Builder.conv, _Builder.conv, _Builder.conv, _Builder.same, _Builder.same, _Builder.linear, _Builder.batch_norm,
    _Builder.batch_norm, _Builder.add, _Builder.pool, _Builder.pool, _Builder.drop_out, _Builder.flatten,
)  # fmt: skip

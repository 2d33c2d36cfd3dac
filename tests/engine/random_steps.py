"""Networks of random steps: every kind, on values of every rank, with several inputs and outputs."""

from collections.abc import Callable
from math import prod
from random import Random

import numpy as np

from asni.engine.graph import Array
from asni.engine.steps import Activation, Shape, Step, Steps

FUNCTIONS = (
    "relu", "clip", "leaky_relu", "gelu", "gelu_tanh", "silu", "sigmoid", "tanh", "hard_swish", "hard_sigmoid", "erf",
    "abs", "neg",
)  # fmt: skip
FUSED = (None, Activation("relu"), Activation("clip", -1.0, 2.0), Activation("leaky_relu", 0.1))
MOST_ELEMENTS = 4000


class Builder:
    """Adds steps one by one. Functions that grow fast are left out, so that numbers stay small."""

    def __init__(self, random: Random) -> None:
        self.random, self.steps, self.shapes = random, list[Step](), dict[str, Shape]()
        self.inputs = tuple(f"x{index}" for index in range(random.choice([1, 1, 2])))
        self.batch = random.choice([1, 1, 1, 2])
        for name in self.inputs:
            shape = random.choice([self._map(), self._map(), (3, 4), (7,), (2, 3, 1, 2)])
            self.shapes[name] = (self.batch, *shape)

    def _map(self) -> Shape:
        return (self.random.randint(1, 9), self.random.randint(1, 9), self.random.randint(1, 18))

    def _array(self, *shape: int, density: float = 1.0) -> Array:
        random = np.random.default_rng(self.random.randint(0, 999))
        kept = random.random(shape) < density
        return np.asarray(random.normal(size=shape) * kept, np.float32)

    def _weight(self, *shape: int) -> Array:
        """Weights that leave the size of numbers as it is."""
        density = self.random.choice([0.0, 0.1, 0.5, 1.0])
        return self._array(*shape, density=density) / np.float32(max(1, prod(shape[1:])) ** 0.5)

    def _any(self, *ranks: int) -> str:
        """A value of one of these ranks, or of any; the last ones more often, so that steps follow each other."""
        names = [name for name, shape in self.shapes.items() if not ranks or len(shape) in ranks]
        return self.random.choice([names[-1], self.random.choice(names)]) if names else self._as_map()

    def _axes(self) -> str:
        """A value that has an axis."""
        return self._any(*range(1, 9))

    def _as_map(self) -> str:
        name = self._any()
        count = prod(self.shapes[name])
        height = self.random.choice([each for each in range(1, count + 1) if count % each == 0])
        return self.add("reshape", [name], (1, 1, height, count // height))

    def add(self, kind: str, inputs: list[str], shape: Shape, **details: object) -> str:
        """A step, and the name of what it makes; arrays among the details are its constants."""
        constants = {name: value for name, value in details.items() if isinstance(value, np.ndarray)}
        settings = {name: value for name, value in details.items() if name not in constants}
        output = f"v{len(self.steps)}"
        self.steps.append(Step(kind, f"step {output}", tuple(inputs), output, settings, constants))  # type: ignore[arg-type]
        self.shapes[output] = shape
        return output

    def conv(self) -> None:
        x, random = self._any(4), self.random
        items, channels, *size = self.shapes[x]
        groups = random.choice([each for each in range(1, channels + 1) if channels % each == 0])
        kernel, stride, dilation = ([random.randint(1, most) for _ in range(2)] for most in (4, 3, 2))
        reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
        before, after = ([random.randint(0, random.choice([2, 2, 12])) for _ in range(2)] for _ in range(2))
        after = [max(a, r - n - b) for a, r, n, b in zip(after, reach, size, before, strict=True)]
        out = [(n + b + a - r) // s + 1 for n, b, a, r, s in zip(size, before, after, reach, stride, strict=True)]
        outputs = groups * random.randint(1, max(1, 12 // groups))
        shape = (items, outputs, out[0], out[1])
        same = [name for name, each in self.shapes.items() if each == shape]
        self.add(
            "conv", [x, *same[-1:]], shape, stride=tuple(stride), dilation=tuple(dilation), pads=(*before, *after),
            groups=groups, activation=random.choice(FUSED), bias=self._array(outputs),
            weight=self._weight(outputs, channels // groups, *kernel),
        )  # fmt: skip

    def linear(self) -> None:
        x, outputs = self._axes(), self.random.randint(1, 20)
        shape = (*self.shapes[x][:-1], outputs)
        same = [name for name, each in self.shapes.items() if each == shape]
        weight = self._weight(outputs, self.shapes[x][-1])
        activation = self.random.choice(FUSED)
        self.add("linear", [x, *same[-1:]], shape, activation=activation, weight=weight, bias=self._array(outputs))

    def matmul(self) -> None:
        a = self._any(*range(2, 9))
        *batch, rows, inner = self.shapes[a]
        permutation = (*range(len(batch)), len(batch) + 1, len(batch))
        b = self.add("transpose", [a], (*batch, inner, rows), permutation=permutation)
        b = self.add("softmax", [b], (*batch, inner, rows), axis=len(batch))
        self.add("matmul", [a, b], (*batch, rows, rows))

    def pool(self) -> None:
        x, random = self._any(4), self.random
        items, channels, *size = self.shapes[x]
        average = random.random() < 0.5
        vertical, horizontal = (self._window(length, 1 if average else random.randint(1, 2)) for length in size)
        out, kernel, stride, dilation, pads = zip(vertical, horizontal, strict=True)
        self.add(
            "pool", [x], (items, channels, *out), mode="average" if average else "max", kernel=kernel, stride=stride,
            dilation=dilation, pads=pads * 2, count_include_pad=random.random() < 0.5,
        )  # fmt: skip

    def _window(self, size: int, dilation: int) -> tuple[int, int, int, int, int]:
        """How many windows a pool has along an axis; their length, stride, dilation and padding."""
        random = self.random
        # The places of a dilated window might all lie in the padding: nothing has no maximum.
        pad = random.randint(0, 2) if dilation == 1 else 0
        most = (size + 2 * pad - 1) // dilation + 1
        if most < 2 * pad:
            pad, most = 0, (size - 1) // dilation + 1
        kernel, stride = random.randint(max(1, 2 * pad), min(most, 5)), random.randint(1, 3)
        left = size + 2 * pad - (kernel - 1) * dilation - 1
        # Counts that are rounded up, if the last window then still begins inside of the map or before it.
        rounded_up = -(-left // stride)
        more = random.random() < 0.5 and rounded_up * stride < size + pad
        return (rounded_up if more else left // stride) + 1, kernel, stride, dilation, pad

    def adaptive_pool(self) -> None:
        x = self._any(4)
        items, channels, *_ = self.shapes[x]
        out = (self.random.randint(1, 5), self.random.randint(1, 5))
        self.add("adaptive_pool", [x], (items, channels, *out), mode=self.random.choice(["max", "average"]))

    def unary(self) -> None:
        x, function = self._any(), self.random.choice(FUNCTIONS)
        numbers = {"clip": (-1.0, 2.0), "leaky_relu": (0.1, 0.0), "hard_sigmoid": (1 / 6, 0.5)}.get(function, ())
        self.add("unary", [x], self.shapes[x], activation=Activation(function, *numbers))  # type: ignore[arg-type]

    def binary(self) -> None:
        a = self._any()
        shape, random = self.shapes[a], self.random
        own = tuple(1 if random.random() < 0.5 else each for each in shape)[random.randint(0, len(shape)) :]
        function = random.choice(["add", "sub", "max", "min", "mul"])
        partners = [name for name, each in self.shapes.items() if _broadcasts(each, shape)]
        if random.random() < 0.5 and partners:
            self.add("binary", random.sample([a, random.choice(partners)], 2), shape, function=function)
        else:
            self.add("binary", [a], shape, function=function, **{random.choice("ab"): self._array(*own)})

    def reshape(self) -> None:
        x = self._any()
        rest, shape = prod(self.shapes[x]), [1]
        for _ in range(self.random.randint(0, 3)):
            shape.append(self.random.choice([each for each in range(1, rest + 1) if rest % each == 0]))
            rest //= shape[-1]
        self.add("reshape", [x], (*shape, rest))

    def expand(self) -> None:
        x = self._any()
        shape = tuple(self.random.randint(1, 3) if each == 1 else each for each in self.shapes[x])
        if prod(shape) < MOST_ELEMENTS:
            self.add("expand", [x], (self.random.randint(1, 2), *shape))

    def transpose(self) -> None:
        x = self._any()
        permutation = self.random.sample(range(len(self.shapes[x])), len(self.shapes[x]))
        self.add("transpose", [x], tuple(self.shapes[x][axis] for axis in permutation), permutation=tuple(permutation))

    def concat(self) -> None:
        x = self._axes()
        shape, axis = self.shapes[x], self.random.randrange(len(self.shapes[x]))
        same = [name for name, each in self.shapes.items() if _differs_only(each, shape, axis)]
        inputs = [x, *self.random.choices(same, k=self.random.randint(1, 2))]
        total = sum(self.shapes[name][axis] for name in inputs)
        if prod(shape) // shape[axis] * total < MOST_ELEMENTS:
            self.add("concat", inputs, (*shape[:axis], total, *shape[axis + 1 :]), axis=axis)

    def slice(self) -> None:
        x = self._axes()
        shape, axis = self.shapes[x], self.random.randrange(len(self.shapes[x]))
        taken = self.random.choice([range(shape[axis])[b::s] for b in range(shape[axis]) for s in (1, 2, 3, -1, -2)])
        settings = {"axis": axis, "start": taken.start, "step": taken.step}
        self.add("slice", [x], (*shape[:axis], len(taken), *shape[axis + 1 :]), **settings)

    def constant(self) -> None:
        shape = self.random.choice([self.shapes[self._any()], (), (3,)])
        self.add("constant", [], shape, value=self._array(*shape))

    def softmax(self) -> None:
        x = self._axes()
        self.add("softmax", [x], self.shapes[x], axis=self.random.randrange(len(self.shapes[x])))

    def layer_norm(self) -> None:
        x = self._axes()
        shape = self.shapes[x]
        trailing = shape[-self.random.randint(1, len(shape)) :]
        weight, bias = self._array(*trailing), self._array(*trailing)
        self.add("layer_norm", [x], shape, dimensions=len(trailing), epsilon=0.5, weight=weight, bias=bias)

    def mean(self) -> None:
        x = self._axes()
        shape = self.shapes[x]
        axes = tuple(axis for axis in range(len(shape)) if self.random.random() < 0.5)
        if axes:
            kept = tuple(1 if axis in axes else each for axis, each in enumerate(shape))
            dropped = tuple(each for axis, each in enumerate(shape) if axis not in axes)
            self.add("mean", [x], self.random.choice([kept, dropped]), axes=axes)

    KINDS: tuple[Callable[["Builder"], None], ...] = (
        conv, conv, linear, matmul, pool, adaptive_pool, unary, binary, reshape, expand, transpose, concat, slice,
        constant, softmax, layer_norm, mean,
    )  # fmt: skip


def _broadcasts(shape: Shape, to: Shape) -> bool:
    return len(shape) <= len(to) and all(
        own in (1, other) for own, other in zip(reversed(shape), reversed(to), strict=False)
    )


def _differs_only(shape: Shape, other: Shape, axis: int) -> bool:
    return len(shape) == len(other) and all(
        a == b or i == axis for i, (a, b) in enumerate(zip(shape, other, strict=True))
    )


def random_steps(random: Random, count: int) -> Steps:
    """A network of about so many steps, some of a fixed batch of 2; outputs are the last value and maybe others."""
    builder = Builder(random)
    for _ in range(count):
        random.choice(Builder.KINDS)(builder)
    values, batch = builder.shapes, builder.batch
    whole = builder.add("expand", [last := list(values)[-1]], (batch, *values[last]))
    whole = builder.add("reshape", [whole], (batch, prod(values[whole]) // batch))
    others = [name for name, shape in values.items() if shape[:1] == (batch,) and name != whole]
    outputs = (*random.sample(others, min(len(others), random.randint(0, 2))), whole)
    return Steps(builder.inputs, outputs, tuple(builder.steps), values, batch if batch > 1 else None)

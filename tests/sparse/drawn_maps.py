"""Random maps for the kernels of a training, and what their results must be."""

from dataclasses import dataclass

import numpy as np
import torch
from hypothesis import strategies as st

from asni.engine.graph import Array
from tests.sparse.kernel_calls import Map, Target


@dataclass(frozen=True)
class Case:
    """A size, a number of threads, and where everything else is drawn from."""

    items: int
    channels: int
    rows: int
    columns: int
    threads: int
    seed: int

    @property
    def shape(self) -> tuple[int, int, int, int]:
        return (self.items, self.channels, self.rows, self.columns)

    @property
    def size(self) -> dict[str, int]:
        return {"channels": self.channels, "rows": self.rows, "columns": self.columns}

    def draw(self) -> "Draw":
        return Draw(np.random.default_rng(self.seed))


@dataclass
class Draw:
    """Random maps with random halos, and random gradients to write."""

    generator: np.random.Generator

    def chance(self) -> bool:
        return bool(self.generator.random() < 0.5)

    def numbers(self, *shape: int) -> Array:
        return self.generator.normal(size=shape).astype(np.float32)

    def small_integers(self, *shape: int) -> Array:
        """Many of them are equal."""
        return self.generator.integers(0, 3, shape).astype(np.float32)

    def map(self, values: Array, *, is_gradient: bool = False) -> Map:
        top, left, bottom, right = (int(size) for size in self.generator.integers(0, 3, 4) * self.chance())
        return Map(values, (top, left, bottom, right), is_gradient)

    def unwritten(self, *shape: int) -> Map:
        return self.map(np.full(shape, np.nan, np.float32))

    def target(self, name: str, *shape: int) -> tuple[dict[str, Map], Target]:
        """A gradient with what lies there before, NaN if nothing may be added to it, and its mask."""
        accumulate, is_masked = self.chance(), self.chance()
        before = self.numbers(*shape) if accumulate else np.full(shape, np.nan, np.float32)
        maps = {name: self.map(before, is_gradient=True)}
        if is_masked:
            maps[f"{name} mask"] = self.map(self.small_integers(*shape) - 1)
        return maps, Target(name, accumulate, f"{name} mask" if is_masked else None)


sizes = st.one_of(st.integers(1, 4), st.integers(1, 10))
cases = st.builds(
    Case,
    items=st.one_of(st.integers(1, 4), st.integers(1, 40)),
    channels=st.integers(1, 5),
    rows=sizes,
    columns=sizes,
    threads=st.integers(1, 3),
    seed=st.integers(0, 2**32),
)


BIG = Case(items=37, channels=7, rows=11, columns=13, threads=2, seed=5)
"""Several groups, the last of which is not full, with any number of lanes."""


def double(array: Array, *, needs_gradient: bool = False) -> torch.Tensor:
    return torch.from_numpy(array.astype(np.float64)).requires_grad_(needs_gradient)


def check(found: Array, expected: Array | torch.Tensor, size: float = 1.0) -> None:
    """Within rounding of the largest number, or of this size if what was added up is larger."""
    expected = np.asarray(expected.detach() if isinstance(expected, torch.Tensor) else expected)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * max(size, np.abs(expected).max(initial=0)))


def check_target(
    found: dict[str, Array], maps: dict[str, Map], target: Target, gradient: Array | torch.Tensor, size: float = 1.0
) -> None:
    """A gradient was written as its target asks for."""
    assert target.d is not None
    total = np.asarray(gradient) + (maps[target.d].values if target.accumulate else 0)
    if target.mask is not None:
        total = np.where(maps[target.mask].values > 0, total, 0)
    check(found[target.d], total, size)

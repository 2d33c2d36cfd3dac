"""The distribution of a network's weights: exact histograms, centroids and sparsity of each layer."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Weights = Mapping[str, npt.NDArray[np.floating]]
Masks = Mapping[str, npt.NDArray[np.bool_]]

_CHUNK = 1 << 16  # weights counted at once: the intermediate arrays stay in the processor's cache
_MOST_BINS = 1 << 16
_BINS_PER_MEAN = 256


@dataclass(frozen=True)
class Histogram:
    """Counts of values in bins `[k * width, (k + 1) * width)` for k = first, first + 1, ...

    The width is a power of two, so no value lands on the wrong side of an edge by rounding, zero is always an edge,
    and the histograms of several networks can be brought to one width by merging bins.
    """

    width: float
    first: int
    counts: npt.NDArray[np.int64]

    @property
    def total(self) -> int:
        """The number of values counted."""
        return int(self.counts.sum())

    @property
    def edges(self) -> npt.NDArray[np.float64]:
        """The bin edges, one more than there are bins."""
        return (self.first + np.arange(len(self.counts) + 1, dtype=np.float64)) * self.width

    def merged(self, width: float) -> "Histogram":
        """The same counts in bins of `width`, a power of two that is at least the current width.

        >>> Histogram(0.25, -1, np.array([5, 1, 2])).merged(0.5)
        Histogram(width=0.5, first=-1, counts=array([5, 3]))
        """
        # The bins are numbered by 64 bits, but networks as far apart as 1e-30 and 1e30 differ by more.
        owner = (self.first + np.arange(len(self.counts))) // min(round(width / self.width), 1 << 62)
        first = int(owner[0]) if len(owner) else 0
        counts = np.zeros(int(owner[-1]) - first + 1 if len(owner) else 0, np.int64)
        np.add.at(counts, owner - first, self.counts)
        return Histogram(width, first, counts)

    def reach(self, share: float) -> float:
        """The smallest r, to within one bin, such that at least `share` of the values lie in [-r, r].

        >>> Histogram(0.5, -2, np.array([1, 4, 4, 1])).reach(0.8)
        0.5
        """
        distance = np.maximum(np.abs(self.edges[:-1]), np.abs(self.edges[1:]))
        order = np.argsort(distance, kind="stable")
        enough = np.cumsum(self.counts[order]) >= share * self.total
        return float(distance[order][np.argmax(enough)]) if self.total else self.width

    def within(self, reach: float) -> "Histogram":
        """Only the bins that lie in [-reach, reach]."""
        edges = self.edges
        inside = (edges[:-1] >= -reach) & (edges[1:] <= reach)
        first = self.first + int(np.argmax(inside)) if inside.any() else 0
        return Histogram(self.width, first, self.counts[inside])


@dataclass(frozen=True)
class Layer:
    """One layer after training: its weights, how many of them survive, and the distribution of the survivors."""

    name: str
    weights: int
    survivors: int
    positive: float | None
    negative: float | None
    histogram: Histogram

    @property
    def sparsity(self) -> float:
        """The fraction of this layer's weights that were pruned."""
        return 1 - self.survivors / self.weights


@dataclass(frozen=True)
class Place:
    """The position of a layer in a ResNet: its stage (None outside all stages) and its part in that stage."""

    stage: int | None
    skip: bool = False
    opens: bool = False


def histogram(arrays: Iterable[npt.NDArray[np.floating]]) -> Histogram:
    """Count every value of every array exactly; the values must be finite.

    >>> histogram([np.array([-1.0, 1.0, 1.0])]).merged(1.0)
    Histogram(width=1.0, first=-1, counts=array([1, 0, 2]))
    """
    parts = [np.ravel(array) for array in arrays if array.size]
    if not parts:
        return Histogram(1.0, 0, np.zeros(0, np.int64))
    low, high = min(float(part.min()) for part in parts), max(float(part.max()) for part in parts)
    width = _width(parts, high - low)
    first = math.floor(low / width)
    counts = np.zeros(math.floor(high / width) - first + 1, np.int64)
    # Scaled up, a float32 stays exact; scaled down, the smallest ones would vanish and lose their sign.
    exact = np.float32 if width <= 1 else np.float64
    for part in parts:
        scale = np.result_type(part.dtype, exact).type(1 / width)
        for start in range(0, part.size, _CHUNK):
            bins = np.floor(part[start : start + _CHUNK] * scale).astype(np.intp) - first
            counts += np.bincount(bins, minlength=len(counts))
    return Histogram(width, first, counts)


def _width(parts: Sequence[npt.NDArray[np.floating]], span: float) -> float:
    """A power of two: small relative to the mean magnitude, but with at most about `_MOST_BINS` bins for outliers."""
    magnitude = sum(float(np.abs(part).sum(dtype=np.float64)) for part in parts) / sum(part.size for part in parts)
    smallest = 2.0**-100  # its inverse is still a float32
    return 2.0 ** math.ceil(math.log2(max(magnitude / _BINS_PER_MEAN, span / _MOST_BINS, smallest)))


def surviving(weights: Weights, masks: Masks) -> dict[str, npt.NDArray[np.floating]]:
    """The surviving weights of each layer: those that its mask keeps, or the nonzero ones if it has no mask."""
    return {name: values[masks.get(name, values != 0)] for name, values in weights.items()}


def layers(weights: Weights, masks: Masks) -> list[Layer]:
    """Every layer's counts, centroids and histogram, in the order of `weights`.

    >>> layer, = layers({"fc.weight": np.array([[3.0, 1.0], [0.0, -0.5]])}, {})
    >>> layer.sparsity, layer.positive, layer.negative
    (0.25, 2.0, -0.5)
    """
    return [
        Layer(
            name.removesuffix(".weight"),
            weights[name].size,
            live.size,
            _mean(live[live > 0]),
            _mean(live[live < 0]),
            histogram([live]),
        )
        for name, live in surviving(weights, masks).items()
    ]


def _mean(values: npt.NDArray[np.floating]) -> float | None:
    return float(values.mean(dtype=np.float64)) if values.size else None


def places(names: Sequence[str]) -> list[Place]:
    """The position of each layer of a ResNet, from names such as `layer2.0.conv1` and `layer2.0.downsample.0`.

    >>> places(["conv1", "layer1.0.conv1", "layer1.0.downsample.0", "fc"])[1:3]
    [Place(stage=1, skip=False, opens=True), Place(stage=1, skip=True, opens=False)]
    """
    found: list[Place] = []
    opened: set[int] = set()
    for name in names:
        match = re.match(r"(?:.*\.)?layer(\d{1,9})\.\d+\.", name)
        stage = int(match[1]) if match else None
        skip = stage is not None and "downsample" in name
        opens = stage is not None and not skip and stage not in opened
        if stage is not None and not skip:
            opened.add(stage)
        found.append(Place(stage, skip, opens))
    return found

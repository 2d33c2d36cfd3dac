"""Which kernels and tiles a layer may run with, the most promising first."""

from dataclasses import dataclass
from functools import cache
from typing import Literal

from asni.engine.program.geometry import Window
from asni.engine.program.layouts import Layout, Machine, Mode
from asni.engine.program.types import tiles

Kernel = Literal["sparse", "dense", "winograd", "sparse_row", "dense_row"]
TITLES = {
    "sparse": "sparse direct", "dense": "dense direct", "winograd": "Winograd", "sparse_row": "sparse direct",
    "dense_row": "dense direct",
}  # fmt: skip
FIRST_CACHE = 24 << 10
"""Bytes of inputs that stay in a first cache of 32 KB while all output channels use them."""
SECOND_CACHE = 512 << 10
LEAST_NONZEROS = 12
"""Of one output channel in a block, on average."""
MOST_TILES = 5
MOST_PLACES = 16
"""Of a kernel whose inputs are copied side by side for one output."""
DENSE_FROM = 0.15
"""The density from which dense kernels are worth timing."""


@dataclass(frozen=True)
class Choice:
    """A kernel with its tile.

    `blocks`: for sparse, into how many blocks input channels are divided; for dense, inputs at a time; for Winograd,
    vectors of tiles at a time. `whole`: one shifted copy per place of the kernel rather than per column.
    """

    kernel: Kernel
    tile: tuple[int, ...] = ()
    blocks: int = 1
    whole: bool = False


@dataclass(frozen=True)
class Site:
    """A layer as the choice sees it: its maps, its window and the density of its weights."""

    x: Layout
    y: Layout
    window: Window
    density: float
    mode: Mode
    groups: int
    """Groups of items that run side by side."""

    @property
    def outputs(self) -> tuple[int, int]:
        """Height and width of the output map."""
        return self.y.shape[2], self.y.shape[3]

    @property
    def pixels(self) -> int:
        """Places of the output map."""
        return self.outputs[0] * self.outputs[1]

    @property
    def is_row(self) -> bool:
        """Whether one item has one output per channel, so that there is nothing to put into vectors."""
        return self.mode == "plain" and self.pixels == 1


def first_choices(site: Site, machine: Machine, *, zeros: bool) -> list[Choice]:
    """What is timed first: the promising tiles of every kernel that can run the layer."""
    if site.is_row:
        dense = [Choice("dense_row")] * (_reads_a_row(site) and (zeros or site.density > DENSE_FROM / 2))
        return dense if dense and zeros else [Choice("sparse_row"), *dense]
    sparse = [Choice("sparse", tile, _blocks(site, tile, machine)) for tile in _sparse_tiles(site, machine)]
    if zeros:
        return sparse[:1]
    found = list(sparse)
    if site.mode == "plain" and not site.window.is_pointwise and site.outputs[1] % machine.lanes:
        found += [Choice("sparse", each.tile, each.blocks, whole=True) for each in sparse[:2]]
    if site.density > DENSE_FROM:
        found += [Choice("dense", tile, _dense_block(site, tile, machine)) for tile in _dense_tiles(site, machine)]
        found += _winograd(site, machine)
    return found


def second_choices(best: Choice, site: Site) -> list[Choice]:
    """Other block sizes for the tile that won."""
    if best.kernel == "sparse":
        channels = site.x.shape[1]
        other = {1, best.blocks // 2, best.blocks * 2, best.blocks * 4} - {0, best.blocks}
        return [Choice("sparse", best.tile, each, best.whole) for each in sorted(other) if each <= channels]
    if best.kernel == "winograd":
        return [Choice("winograd", best.tile, each) for each in (2 * best.blocks, best.blocks // 2) if each]
    return []


@cache
def _compiled(kernel: str) -> list[tuple[int, int, int, int, int]]:
    return tiles(kernel)


def _columns(site: Site, vector: int) -> tuple[int, int, int]:
    """Rows and columns of vectors that a tile is laid over, and the distance of their inputs in vectors."""
    if site.mode == "plain":
        return 1, -(-site.pixels // vector), 1
    return *site.outputs, site.window.stride[1]


def _fits(tile: tuple[int, int, int, int, int], site: Site, vector: int) -> bool:
    rows, columns, distance = _columns(site, vector)
    _, groups, tile_rows, tile_columns, stride = tile
    if stride not in (distance, 0) or (stride == 0 and distance in (1, 2)):
        return False
    if groups > 1 and (site.mode == "plain" or groups > site.groups or site.pixels > 16):
        return False
    return tile_rows <= rows and tile_columns <= columns


def _overhead(tile: tuple[int, int, int, int, int], site: Site, vector: int) -> float:
    """What a tile does beyond the work itself: outputs computed twice at the borders, and loads that are not shared."""
    rows, columns, _ = _columns(site, vector)
    _, groups, tile_rows, tile_columns, _ = tile
    covered = -(-rows // tile_rows) * tile_rows * -(-columns // tile_columns) * tile_columns
    size = groups * tile_rows * tile_columns
    return covered / (rows * columns) * (size + 1.5) / size


def _sparse_tiles(site: Site, machine: Machine) -> list[tuple[int, ...]]:
    widest = machine.vector(site.pixels) if site.mode == "plain" else machine.lanes
    found = _best_tiles(site, widest)
    if site.mode == "plain" and widest > 8 and site.outputs[1] % widest:
        # Loads that cross cache lines take twice as long: short vectors, which cross fewer, may win.
        found = found[: MOST_TILES - 2] + _best_tiles(site, 8)[:2]
    return found


def _best_tiles(site: Site, vector: int) -> list[tuple[int, ...]]:
    fitting = [tile for tile in _compiled("sparse") if tile[0] == vector and _fits(tile, site, vector)]
    fitting.sort(key=lambda tile: _overhead(tile, site, vector))
    return [tile[:4] for tile in fitting[:MOST_TILES]]


def _dense_tiles(site: Site, machine: Machine) -> list[tuple[int, ...]]:
    lanes = machine.lanes
    if site.mode == "plain" and machine.vector(site.pixels) != lanes:
        return []
    channels = site.y.shape[1] // site.window.groups
    fitting = [tile for tile in _compiled("dense") if _fits(tile, site, lanes)]
    fitting.sort(key=lambda tile: _overhead(tile, site, lanes) * -(-channels // tile[0]) * tile[0])
    return [tile[:4] for tile in fitting[:2]]


def _winograd(site: Site, machine: Machine) -> list[Choice]:
    window = site.window
    fits = window.kernel == (3, 3) and window.stride == window.dilation == (1, 1) and window.groups == 1
    if not fits or max(window.top, window.left) > 1 or site.pixels < 16:
        return []
    pack, strip, *_ = _compiled("winograd")[0]
    channels = site.x.shape[1] + site.y.shape[1]
    vectors = -(-site.outputs[0] // 4) * -(-site.outputs[1] // 4)
    if site.mode == "plain":
        vectors = -(-vectors // machine.lanes)
    block = max(1, SECOND_CACHE // (36 * channels * machine.lanes * 4) // strip) * strip
    return [Choice("winograd", (pack,), min(block, vectors))]


def _footprint(site: Site, tile: tuple[int, ...], machine: Machine) -> int:
    """Bytes of one input channel that a tile reads."""
    window = site.window
    _, groups, rows, columns = tile
    if site.mode == "plain":
        return (1 if window.is_pointwise else window.kernel[0] * window.kernel[1]) * tile[0] * columns * 4
    height = (rows - 1) * window.stride[0] + (window.kernel[0] - 1) * window.dilation[0] + 1
    width = (columns - 1) * window.stride[1] + (window.kernel[1] - 1) * window.dilation[1] + 1
    return groups * height * width * machine.lanes * 4


def _blocks(site: Site, tile: tuple[int, ...], machine: Machine) -> int:
    """As many as keep the inputs of a tile in the first cache, but each with enough nonzeros to pay for its sums."""
    channels = site.x.shape[1]
    by_cache = -(-channels * _footprint(site, tile, machine) // FIRST_CACHE)
    nonzeros = site.density * channels // site.window.groups * site.window.kernel[0] * site.window.kernel[1]
    return max(1, min(channels, by_cache, int(nonzeros) // LEAST_NONZEROS))


def _dense_block(site: Site, tile: tuple[int, ...], machine: Machine) -> int:
    places = site.window.kernel[0] * site.window.kernel[1]
    return places * max(1, FIRST_CACHE // _footprint(site, (machine.lanes, *tile[1:]), machine))


def _reads_a_row(site: Site) -> bool:
    """Whether the inputs of the one output can be put side by side at little cost."""
    return site.window.groups == 1 and site.window.kernel[0] * site.window.kernel[1] <= MOST_PLACES

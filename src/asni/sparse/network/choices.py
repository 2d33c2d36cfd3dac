"""Which kernels train a layer: a function of shapes and densities alone, so that a training repeats bit for bit."""

from dataclasses import dataclass
from math import prod

from asni.engine.program.choices import Choice, Site, first_choices
from asni.engine.program.geometry import Window
from asni.engine.program.layouts import Layout, Machine
from asni.engine.program.types import tiles

WINOGRAD_FROM, WINOGRAD_BACKWARD_FROM = 0.27, 0.33
"""The density from which Winograd's dense convolution is faster than the nonzeros, on maps that its tiles fill."""
WINOGRAD_INPUTS = 8
"""Fewer input channels do not pay for the transforms of the outputs."""
DENSE_FROM = 0.8
GRADIENT_TILES = 16
"""Vectors of tiles whose transforms are multiplied at a time for the gradient of the weights."""
FIRST_CACHE = 24 << 10
NEAR = 52 << 10
"""Bytes of inputs most of which are found in the first cache."""
SECOND_CACHE = 512 << 10
SMALL_MAP = 16
LANES_AT_ONCE = 32
"""Lanes of all the tiles whose sums stay in the first cache while the nonzeros of an input channel pass by them."""
LEAST_NONZEROS = 20
"""Of one input channel in a block of output channels, on average."""


@dataclass(frozen=True)
class Plan:
    """The kernels of a layer: forward, and backward for the gradient of the inputs and that of the weights.

    Without `inputs` and `weights`, one walk through the nonzeros gives both gradients.
    """

    forward: Choice
    tile: tuple[int, int, int]
    blocks: int
    chunk: int
    tiles_at_once: int
    inputs: Choice | None = None
    weights: Choice | None = None


def forward_choice(site: Site, machine: Machine) -> Choice:
    """The kernel that computes a layer's outputs."""
    found = first_choices(site, machine, zeros=False)
    is_dense = site.density >= WINOGRAD_FROM * _waste(site.outputs) and site.x.shape[1] >= WINOGRAD_INPUTS
    if is_dense and (winograd := _of_winograd(found)):
        return winograd[0]
    if site.density >= DENSE_FROM and (dense := [each for each in found if each.kernel == "dense"]):
        return dense[0]
    best = found[0]
    if best.blocks == 1 and _pairs_stay_near(site, best.tile[1], machine):
        return Choice("sparse", (machine.lanes, 2, 1, 1))
    return best


def _of_winograd(choices: list[Choice]) -> list[Choice]:
    return [each for each in choices if each.kernel == "winograd"]


def _pairs_stay_near(site: Site, groups: int, machine: Machine) -> bool:
    """Whether the inputs of a linear layer stay in the first cache for two groups alone: they are read in any order."""
    each = prod(site.x.shape[1:]) * machine.lanes * 4
    return site.pixels == 1 and groups > 2 and 2 * each <= NEAR < groups * each


def plan_of_convolution(
    window: Window, density: float, x: Layout, y: Layout, machine: Machine, groups: int, *, needs_inputs: bool
) -> Plan:
    """The kernels of a convolution between these maps; `groups` of items run on each thread."""
    site = Site(x, y, window, density, "lanes", groups)
    forward = forward_choice(site, machine)
    inputs = weights = None
    is_dense = density >= WINOGRAD_BACKWARD_FROM * _waste(x.shape[2:])
    if is_dense and _of_winograd(first_choices(site, machine, zeros=False)):
        inputs = _gradient_by_winograd(window, x, y, density, machine, groups) if needs_inputs else None
        # Otherwise both gradients come from one walk through the nonzeros.
        if inputs is not None or not needs_inputs:
            weights = Choice("winograd", (), GRADIENT_TILES)
    rows, columns = (-(-size // step) for size, step in zip(x.shape[2:], window.stride, strict=True))
    tile = _tile(rows, columns, groups, needs_inputs=needs_inputs)
    at_once = LANES_AT_ONCE // machine.lanes
    area = (tile[0], tile[1], min(tile[2] * at_once, columns))
    blocks = _blocks(window, y, density, area, machine)
    chunk = _chunk(density * prod(y.shape[:2]) * window.kernel[0] * window.kernel[1] // window.groups, x, machine)
    return Plan(forward, tile, blocks, chunk, at_once, inputs, weights)


def plan_of_linear(
    window: Window, density: float, x: Layout, y: Layout, machine: Machine, groups: int, *, needs_inputs: bool
) -> Plan:
    """The kernels of a linear layer; the sums of a chunk of inputs stay in the first cache."""
    forward = forward_choice(Site(x, y, window, density, "lanes", groups), machine)
    nonzeros_each = max(1.0, density * y.shape[1])
    chunk = max(1, int(FIRST_CACHE / 2 / (machine.lanes * 4) / nonzeros_each))
    return Plan(forward, _tile(1, 1, groups, needs_inputs=needs_inputs), 1, min(prod(x.shape), chunk), 1)


def _waste(outputs: tuple[int, ...]) -> float:
    """How much more Winograd computes because its tiles reach beyond the map."""
    return prod(-(-size // 4) * 4 for size in outputs) / prod(outputs)


def _chunk(nonzeros_each: float, x: Layout, machine: Machine) -> int:
    """All input channels, or on small maps so many that their sums stay in the second cache."""
    channels = x.shape[1]
    if x.shape[2] * x.shape[3] > SMALL_MAP:
        return channels
    return max(1, min(channels, int(SECOND_CACHE / (machine.lanes * 4) / max(1.0, nonzeros_each))))


def _gradient_by_winograd(
    window: Window, x: Layout, y: Layout, density: float, machine: Machine, groups: int
) -> Choice | None:
    # Which padding the turned kernels have makes no difference to the choice: vectors of items take any.
    turned = Window(window.kernel, (1, 1), (1, 1), 1, 1, 1, True)
    choice = forward_choice(Site(y, x, turned, density, "lanes", groups), machine)
    return choice if choice.kernel == "winograd" else None


def _tile(rows: int, columns: int, groups: int, *, needs_inputs: bool) -> tuple[int, int, int]:
    """The tile with the least work for its positions and its own loads; some cannot give the inputs' gradient.

    Of tiles with the same work, it is the one with the fewest inputs of a 3x3 kernel.
    """

    def cost(tile: tuple[int, int, int]) -> tuple[float, int]:
        across, down = columns // tile[2] * tile[2], rows // tile[1] * tile[1]
        # What is left over: below, rows of one position; at the right, single positions.
        left_over = (rows - down) * across * _each(tile[0] * tile[2]) + rows * (columns - across) * _each(tile[0])
        footprint = tile[0] * (tile[1] + 2) * (tile[2] + 2)
        return down * across * _each(prod(tile)) + left_over, footprint

    def fits(tile: tuple[int, int, int]) -> bool:
        return tile[0] <= groups and tile[1] <= rows and tile[2] <= columns and (tile[0] == 1 or rows * columns <= 16)

    known = [(g, r, c) for _, g, r, c, has_inputs in tiles("sparse_backward") if has_inputs or not needs_inputs]
    return min(filter(fits, known), key=cost)


def _each(positions: int) -> float:
    """The time of a position in a tile of so many, which share the loads of weights and sums."""
    return 1 + 2.5 / positions


def _blocks(window: Window, y: Layout, density: float, area: tuple[int, int, int], machine: Machine) -> int:
    """Blocks of output channels whose gradients around an area stay in the first cache, if each has enough nonzeros."""
    outputs = y.shape[1]
    height = area[1] + -(-(window.kernel[0] - 1) * window.dilation[0] // window.stride[0])
    width = area[2] + -(-(window.kernel[1] - 1) * window.dilation[1] // window.stride[1])
    footprint = outputs * area[0] * height * width * machine.lanes * 4
    nonzeros = density * outputs // window.groups * window.kernel[0] * window.kernel[1]
    return max(1, min(-(-footprint // FIRST_CACHE), int(nonzeros) // LEAST_NONZEROS))

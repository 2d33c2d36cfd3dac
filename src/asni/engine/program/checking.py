"""Whether a kernel with its tile can run a layer: a plan may be of another build, or changed by hand."""

from asni.engine.program.choices import Choice, Site
from asni.engine.program.layouts import Machine
from asni.engine.program.types import tiles


def can_run(choice: Choice, site: Site, machine: Machine) -> bool:
    """Whether the core has this kernel with this tile, and the tile fits into the output map."""
    if choice.kernel == "sparse_row":
        return site.is_row
    if choice.kernel == "dense_row":
        return site.is_row and site.window.groups == 1
    if choice.kernel == "winograd":
        return _is_for_winograd(choice, site)
    if not 1 <= choice.blocks <= _most_blocks(choice, site):
        return False
    return any(tile[:4] == choice.tile and _fits(tile, choice, site, machine) for tile in tiles(choice.kernel))


def _fits(tile: tuple[int, int, int, int, int], choice: Choice, site: Site, machine: Machine) -> bool:
    first, _, rows, columns, distance = tile
    vector = first if choice.kernel == "sparse" else machine.lanes
    if site.mode == "lanes":
        (height, width), widest, step = site.outputs, machine.lanes, site.window.stride[1]
    else:
        # A map is one row of vectors, and may be cut into shorter ones than it was laid out for.
        height, width, widest, step = 1, -(-site.pixels // vector), machine.vector(site.pixels), 1
    is_whole = widest == vector if site.mode == "lanes" else widest % vector == 0
    return is_whole and rows <= height and columns <= width and distance in (0, step)


def _most_blocks(choice: Choice, site: Site) -> int:
    return site.x.shape[1] if choice.kernel == "sparse" else 2**31


def _is_for_winograd(choice: Choice, site: Site) -> bool:
    window = site.window
    shape = (window.kernel, window.stride, window.dilation, window.groups)
    blocks = 1 <= choice.blocks <= 2 * site.pixels
    return shape == ((3, 3), (1, 1), (1, 1), 1) and (*choice.tile,) == tiles("winograd")[0][:1] and blocks

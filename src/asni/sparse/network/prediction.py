"""How much faster steps on the nonzeros should be, from shapes and densities alone."""

from math import prod

from asni.sparse.network.layers import Site
from asni.sparse.network.network import Network

DENSE_RATE, SPARSE_RATE, WINOGRAD_RATE = 0.75, 0.55, 2.0
"""Multiplications per second of dense PyTorch, of the nonzeros and of Winograd, as parts of what a core can do."""
PER_VALUE = 4.0
"""What a value of a map costs beyond its multiplications, in multiplications."""


def predicted_gain(network: Network) -> float:
    """How many times as fast as dense ones the steps of a network should be."""
    values = PER_VALUE * sum(prod(shape) for shape in network.steps.shapes.values())
    dense = sum(
        _passes(network, site) * _multiplications(network, site) / DENSE_RATE for site in network.sites.values()
    )
    ours = sum(_cost(network, site) for site in network.sites.values())
    return (dense + values) / (ours + values)


def _multiplications(network: Network, site: Site) -> float:
    """Of the dense layer, for one item."""
    outputs = network.steps.shapes[site.y]
    return prod(site.shape) * outputs[2] * outputs[3]


def _passes(network: Network, site: Site) -> int:
    """Forward, gradient of the weights, and gradient of the inputs unless they are the images."""
    return 2 if site.x == network.steps.input else 3


def _cost(network: Network, site: Site) -> float:
    dense = _multiplications(network, site)
    if site.plan.forward.kernel == "winograd":
        return _passes(network, site) * dense / WINOGRAD_RATE
    return _passes(network, site) * dense * len(site.walk.order) / prod(site.shape) / SPARSE_RATE

"""Draw the paper's figures from run directories: one function per figure, and `save` for PNG and SVG."""

from asni.figures.epochs import schedule, training
from asni.figures.investigate import investigation
from asni.figures.sparsity import layer_sparsity
from asni.figures.style import save
from asni.figures.weights import layer_distributions, network_distribution

__all__ = [
    "investigation",
    "layer_distributions",
    "layer_sparsity",
    "network_distribution",
    "save",
    "schedule",
    "training",
]

"""Draw the paper's figures from run directories: one function per figure, and `save` for PNG and SVG.

A notebook shows the figure that a function returns. It is a matplotlib figure: its axes can be changed before it is
saved. Runs are directories that `asni train`, `asni investigate` or `asni compare` wrote, as `str` or `Path`.

>>> import asni
>>> asni.figures.training("runs/digits-fc/seed-0")
<Figure size 690x370 with 2 Axes>
"""

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

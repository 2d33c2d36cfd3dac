"""Sparse networks in one round of training, and the 2L numbers they can be trained from again.

>>> import asni, torch
>>> model = torch.nn.Linear(10, 10)
>>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
>>> pruner = asni.ASNI(model, optimizer, sparsity=0.9, epochs=5, steps_per_epoch=100)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from asni.errors import AsniError, PackError
    from asni.methods.amenable import Amenable, amenable
    from asni.methods.asni import ASNI
    from asni.methods.continuous import Continuous
    from asni.methods.gmp import GMP
    from asni.methods.magnitude import Magnitude
    from asni.methods.rigl import SET, RigL
    from asni.methods.soft_threshold import STR
    from asni.packing import load
    from asni.pruning.gradual import GradualMagnitude
    from asni.pruning.hold import Hold
    from asni.pruning.masks import keep_largest, prunable

__all__ = [
    "ASNI",
    "GMP",
    "SET",
    "STR",
    "Amenable",
    "AsniError",
    "Continuous",
    "GradualMagnitude",
    "Hold",
    "Magnitude",
    "PackError",
    "RigL",
    "amenable",
    "keep_largest",
    "load",
    "prunable",
]

# Looked up when first used: reading a recipe, or a result on disk, must not wait for torch.
_HOMES = {
    "ASNI": "asni.methods.asni",
    "GMP": "asni.methods.gmp",
    "SET": "asni.methods.rigl",
    "STR": "asni.methods.soft_threshold",
    "Amenable": "asni.methods.amenable",
    "AsniError": "asni.errors",
    "Continuous": "asni.methods.continuous",
    "GradualMagnitude": "asni.pruning.gradual",
    "Hold": "asni.pruning.hold",
    "Magnitude": "asni.methods.magnitude",
    "PackError": "asni.errors",
    "RigL": "asni.methods.rigl",
    "amenable": "asni.methods.amenable",
    "keep_largest": "asni.pruning.masks",
    "load": "asni.packing",
    "prunable": "asni.pruning.masks",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'asni' has no attribute '{name}'")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__

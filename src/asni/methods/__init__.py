"""The methods by name: each trains in as many rounds as it needs and returns the run of the last one."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from asni.methods.amenable import asni_2, original
from asni.methods.asni import asni_1
from asni.methods.continuous import continuous
from asni.methods.dense import dense
from asni.methods.gmp import gmp
from asni.methods.magnitude import magnitude
from asni.methods.rigl import rigl, rigl_uniform, set_
from asni.methods.soft_threshold import soft_threshold

if TYPE_CHECKING:
    from asni.runs import Run
    from asni.training import Trainer

METHODS: "dict[str, Callable[[Trainer], Run]]" = {
    "dense": dense,
    "asni": asni_1,
    "asni-2": asni_2,
    "original": original,
    "gmp": gmp,
    "magnitude": magnitude,
    "rigl": rigl,
    "rigl-uniform": rigl_uniform,
    "set": set_,
    "str": soft_threshold,
    "continuous": continuous,
}

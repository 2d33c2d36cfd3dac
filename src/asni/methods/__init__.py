"""The methods by name: each trains in as many rounds as it needs and returns the run of the last one."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from asni.methods.amenable import asni_2, original
from asni.methods.asni import asni_1
from asni.methods.continuous import continuous
from asni.methods.controls import control_fresh, control_mask, control_signs
from asni.methods.dense import dense
from asni.methods.early_bird import early_bird
from asni.methods.gmp import gmp
from asni.methods.grasp import grasp
from asni.methods.lottery import lottery, lottery_layerwise, lottery_rewind
from asni.methods.magnitude import magnitude
from asni.methods.random_mask import random_mask
from asni.methods.retraining import magnitude_retrain, magnitude_rewind
from asni.methods.rigl import rigl, rigl_uniform, set_
from asni.methods.snip import snip
from asni.methods.soft_threshold import soft_threshold
from asni.methods.synflow import synflow

if TYPE_CHECKING:
    from asni.runs.run import Run
    from asni.training.trainer import Trainer

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
    "control-fresh": control_fresh,
    "control-signs": control_signs,
    "control-mask": control_mask,
    "lottery": lottery,
    "lottery-layerwise": lottery_layerwise,
    "lottery-rewind": lottery_rewind,
    "magnitude-rewind": magnitude_rewind,
    "magnitude-retrain": magnitude_retrain,
    "snip": snip,
    "grasp": grasp,
    "synflow": synflow,
    "early-bird": early_bird,
    "random": random_mask,
}

"""The operators of torch.export (aten) in terms of ONNX operators, as `from_torch` needs them."""

import torch

from asni.engine.frontends.aten.calls import Operator
from asni.engine.frontends.aten.layers import LAYERS
from asni.engine.frontends.aten.pointwise import POINTWISE
from asni.engine.frontends.aten.pooling import POOLING
from asni.engine.frontends.aten.shapes import SHAPES

OPERATORS: dict[torch._ops.OpOverload, Operator] = {**LAYERS, **POOLING, **POINTWISE, **SHAPES}

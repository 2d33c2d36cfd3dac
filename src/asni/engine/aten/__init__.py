"""The operators of torch.export (aten) in terms of ONNX operators, as `from_torch` needs them."""

import torch

from asni.engine.aten.calls import Operator
from asni.engine.aten.layers import LAYERS
from asni.engine.aten.pointwise import POINTWISE
from asni.engine.aten.pooling import POOLING
from asni.engine.aten.shapes import SHAPES

OPERATORS: dict[torch._ops.OpOverload, Operator] = {**LAYERS, **POOLING, **POINTWISE, **SHAPES}

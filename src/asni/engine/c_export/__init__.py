"""A network as one C file with its weights, for a small device.

C99 without malloc, global state or any library but that of mathematics. Each kind of step is a function with plain
loops (kernels.c); zeros are not stored where that is smaller; values share one arena of scratch memory.
"""

from asni.engine.c_export.weights import Precision
from asni.engine.c_export.writing import Exported, write_c

__all__ = ["Exported", "Precision", "write_c"]

from . import figures as figures
from .engine.engine import Engine as Engine
from .engine.engine import compile as compile
from .engine.engine import load_engine as load_engine
from .engine.layer_times import latency_budget as latency_budget
from .engine.layer_times import layer_times as layer_times
from .engine.layer_times import timed as timed
from .engine.packing import pack as pack
from .errors import AsniError as AsniError
from .errors import EngineError as EngineError
from .errors import PackError as PackError
from .errors import SparsityWarning as SparsityWarning
from .methods.amenable import Amenable as Amenable
from .methods.amenable import amenable as amenable
from .methods.asni import ASNI as ASNI
from .methods.continuous import Continuous as Continuous
from .methods.gmp import GMP as GMP
from .methods.magnitude import Magnitude as Magnitude
from .methods.rigl import SET as SET
from .methods.rigl import RigL as RigL
from .methods.soft_threshold import STR as STR
from .packing import load as load
from .pruning import schedules as schedules
from .pruning.gradual import GradualMagnitude as GradualMagnitude
from .pruning.hold import Hold as Hold
from .pruning.layers import prunable as prunable
from .pruning.masks import keep_largest as keep_largest
from .pruning.pruner import Pruner as Pruner
from .pruning.summary import Summary as Summary
from .pruning.summary import summary as summary
from .sparse.loop.context import sparse_training as sparse_training

__all__: list[str]
__version__: str

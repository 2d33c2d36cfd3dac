"""Lists of operations without maps, as an optimiser's steps are."""

from collections.abc import Sequence
from ctypes import addressof
from typing import Any

from asni.engine.program.team import Team
from asni.engine.program.types import KERNELS, Operation, Run

_WITHOUT_MAPS = Run(groups=1, group_items=1, items=1, subnormals_are_zero=1)


def operations_of(kernel: str, parameters: Sequence[Any]) -> Any:
    """Calls of one kernel; whoever runs them keeps the parameters."""
    number = KERNELS.index(kernel)
    return (Operation * len(parameters))(*(Operation(number, addressof(each)) for each in parameters))


def run(operations: Any, team: Team) -> None:
    """Run an array of operations, one after the other."""
    team.run(addressof(operations), len(operations), addressof(_WITHOUT_MAPS))

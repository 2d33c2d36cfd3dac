"""Threads of the native core that run a list of operations without maps."""

import os
from collections.abc import Sequence
from ctypes import addressof
from typing import Any

from asni.engine.program.types import KERNELS, Operation, Run, core


class Team:
    """Runs operations that share their work between so many threads."""

    def __init__(self, threads: int) -> None:
        self._run = Run(groups=1, group_items=1, items=1)
        self._process = os.getpid()
        self._team = core().asni_team_new(threads)
        if not self._team:
            raise MemoryError("no memory for the threads of the kernels")

    def run(self, operations: Any) -> None:
        """Run an array of operations, one after the other."""
        core().asni_execute(self._team, addressof(operations), len(operations), addressof(self._run))

    def __del__(self) -> None:
        # Threads do not survive a fork, and cannot be waited for in the child.
        if getattr(self, "_team", None) and self._process == os.getpid():
            core().asni_team_delete(self._team)


def operations_of(kernel: str, parameters: Sequence[Any]) -> Any:
    """Calls of one kernel; whoever runs them keeps the parameters."""
    number = KERNELS.index(kernel)
    return (Operation * len(parameters))(*(Operation(number, addressof(each)) for each in parameters))

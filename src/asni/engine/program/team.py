"""The threads of the native core that run a list of operations together."""

import os
from typing import Any

from asni.engine.program.types import core


class Team:
    """So many threads. A fork leaves them behind, so that its child starts threads of its own."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._start()

    def run(self, operations: int, count: int, run: int) -> None:
        """Run operations one after the other; all of these are addresses, but the count."""
        if self.process != os.getpid():
            self._start()
        core().asni_execute(self.handle, operations, count, run)

    def _start(self) -> None:
        self.process = os.getpid()
        self.handle: Any = core().asni_team_new(self.threads)
        if not self.handle:
            raise MemoryError("no memory for the threads of the engine")

    def __del__(self) -> None:
        # The threads of another process cannot be waited for.
        if getattr(self, "handle", None) and self.process == os.getpid():
            core().asni_team_delete(self.handle)

"""What a pruner tells its user, in process 0 alone: facts through the logger "asni.pruning", problems as warnings.

Silence the facts with `logging.getLogger("asni.pruning").setLevel("WARNING")`.
"""

import logging
import sys
import warnings
from typing import TextIO

import torch

from asni.errors import SparsityWarning

logger = logging.getLogger("asni.pruning")


class _UnlessConfigured(logging.Handler):
    """Prints to stderr in a program that has not configured logging, which would otherwise drop facts."""

    def emit(self, record: logging.LogRecord) -> None:
        if not logging.getLogger().handlers:
            print(f"asni: {record.getMessage()}", file=_stream(record))


def _stream(record: logging.LogRecord) -> TextIO:
    # A notebook shows all of stderr in the red of errors, and has no pipe that a fact on stdout could disturb.
    in_notebook = type(sys.stderr).__module__ == "ipykernel.iostream"
    return sys.stdout if in_notebook and record.levelno < logging.WARNING else sys.stderr


logger.addHandler(_UnlessConfigured())
if logger.level == logging.NOTSET:
    logger.setLevel(logging.INFO)


def say(text: str) -> None:
    """Tell a fact."""
    if _speaks_for_all():
        logger.info(text)


def warn(text: str) -> None:
    """Warn of a problem."""
    if _speaks_for_all():
        warnings.warn(text, SparsityWarning, stacklevel=_outside())


def warn_late(text: str) -> None:
    """Warn where nothing can be raised: while objects are deleted, or at the end of the program."""
    if _speaks_for_all():
        logger.warning(text)


def _speaks_for_all() -> bool:
    distributed = torch.distributed
    return not (distributed.is_available() and distributed.is_initialized() and distributed.get_rank())


def _outside() -> int:
    """How many frames lie between a warning and the user's own line: those of asni and of torch are skipped."""
    depth, frame = 1, sys._getframe(1)
    while frame.f_back and frame.f_globals.get("__name__", "").split(".")[0] in ("asni", "torch"):
        depth, frame = depth + 1, frame.f_back
    return depth

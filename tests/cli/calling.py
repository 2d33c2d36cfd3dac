"""Calling the command line inside the test's own process."""

import logging
import sys
from dataclasses import dataclass

import pytest

from asni.cli import main


@dataclass(frozen=True)
class Answer:
    status: int
    out: str
    err: str


class Command:
    """`command("plan", "mnist-fc")` is `asni plan mnist-fc`."""

    def __init__(self, capture: pytest.CaptureFixture[str], patch: pytest.MonkeyPatch):
        self._capture, self._patch = capture, patch

    def __call__(self, *arguments: str) -> Answer:
        self._patch.setattr(sys, "argv", ["asni", *arguments])
        logger = logging.getLogger("asni.pruning")
        level = logger.level
        status = 0
        try:
            main()
        except SystemExit as ended:
            status = int(ended.code or 0)
        finally:
            # The command line silences what pruners say, which later tests in this process want to hear.
            logger.setLevel(level)
        captured = self._capture.readouterr()
        return Answer(status, captured.out, captured.err)

"""Calling the command line inside the test's own process."""

import io
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


class Terminal(io.TextIOWrapper):
    """What is written to it counts as shown on a terminal."""

    def isatty(self) -> bool:
        return True


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

    def on_terminal(self, width: int, *arguments: str, encoding: str = "utf-8", no_color: bool = False) -> Answer:
        """The same where standard output is a terminal of so many columns."""
        shown = io.BytesIO()
        with self._patch.context() as patch:
            patch.setenv("COLUMNS", str(width))
            patch.setenv("TERM", "xterm-256color")
            patch.delenv("NO_COLOR", raising=False)
            if no_color:
                patch.setenv("NO_COLOR", "1")
            patch.setattr(sys, "stdout", terminal := Terminal(shown, encoding=encoding))
            answer = self(*arguments)
            terminal.flush()
        return Answer(answer.status, shown.getvalue().decode(encoding), answer.err)

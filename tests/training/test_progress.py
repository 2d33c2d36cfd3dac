"""A training shows how far it is: in a row on a terminal, in lines elsewhere."""

import io
import re

import pytest
from rich.console import Console

from asni.training.progress import Progress
from tests.drawing import drawn_lines

ENTRY = {"epoch": 1, "loss": 0.2417, "accuracy": 92.26, "nonzeros": 2920}


def trained(width: int, *, terminal: bool = True, term: str = "xterm") -> io.StringIO:
    text = io.StringIO()
    console = Console(file=text, force_terminal=terminal, width=width, _environ={"TERM": term})
    progress = Progress(console, about="seed 1 ")
    with progress.training("asni-1", 4, 40, 0) as bar:
        for _ in range(20):
            bar.step()
        bar.evaluating()
        bar.epoch(ENTRY)
    return text


@pytest.mark.parametrize(("width", "shown"), [(60, "epoch 2/4"), (80, "2,920 nonzeros"), (140, "loss 0.2417")])
def test_a_row_has_what_fits_and_always_the_stage_the_percentage_and_the_time_left(width: int, shown: str) -> None:
    *drawing, last = drawn_lines(trained(width))
    assert all(len(line) < width - len("^C") for line in drawing)
    assert len(last) <= width
    assert re.match(rf"seed 1 asni-1  .* 50 %  0 s left .*{shown}", drawing[-1])
    assert last == "seed 1 asni-1  92.26 %  2,920 nonzeros  in 0 s"


@pytest.mark.parametrize(("terminal", "term"), [(False, "xterm"), (True, "dumb")])
def test_a_log_and_a_terminal_that_cannot_redraw_have_plain_lines(terminal: bool, term: str) -> None:
    text = trained(40, terminal=terminal, term=term)
    assert text.getvalue() == "asni-1: epoch 2/4  loss 0.2417  accuracy 92.26  nonzeros 2,920\n"


def test_ctrl_c_leaves_nothing_of_the_row() -> None:
    text = io.StringIO()
    progress = Progress(Console(file=text, force_terminal=True, width=80))
    with pytest.raises(KeyboardInterrupt), progress.training("dense", 4, 40, 0):
        raise KeyboardInterrupt
    assert re.search(r"\x1b\[\?25h.*\x1b\[1A\x1b\[2K$", text.getvalue(), re.DOTALL)

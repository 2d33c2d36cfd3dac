"""A training shows how far it is: in a row on a terminal, in lines elsewhere."""

import io
import re
import warnings
from pathlib import Path

import pytest
import torch
from rich.console import Console

from asni.errors import SparsityWarning
from asni.pruning.hold import Hold
from asni.training.progress import Progress, in_options
from tests.drawing import drawn_lines

ENTRY = {"epoch": 1, "loss": 0.2417, "accuracy": 92.26, "nonzeros": 2920, "seconds": 1.25}


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
    assert last == "seed 1 asni-1  92.26 %  2,920 nonzeros  in 1.2 s"


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


def test_a_resumed_training_took_the_time_of_all_its_epochs() -> None:
    text = io.StringIO()
    with Progress(Console(file=text, force_terminal=True, width=80)).training("dense", 4, 40, 10, 300.0) as bar:
        bar.epoch(ENTRY)
    assert drawn_lines(text)[-1].endswith("nonzeros  in 5 min")


ADVICE = 'almost no signal passes: rank with score="lamp", or keep some of each layer with floor=0.01, and so on.'


@pytest.mark.parametrize("terminal", [False, True])
def test_a_warning_says_whose_it_is_names_options_and_is_wrapped_at_words_on_a_terminal(terminal: bool) -> None:
    text = io.StringIO()
    progress = Progress(Console(file=text, force_terminal=terminal, width=50), about="seed 1 ")
    with progress.warnings("asni-1"):
        warnings.warn(ADVICE, SparsityWarning, stacklevel=1)
    said = (
        "seed 1 asni-1: almost no signal passes: rank with --score lamp, or keep some of each layer with "
        "floor = 0.01 in [pruning], and so on."
    )
    lines = text.getvalue().splitlines()
    assert " ".join(line.rstrip() for line in lines) == said
    assert (max(map(len, lines)) <= 50, len(lines) > 1) == (terminal, terminal)


def test_a_path_that_is_longer_than_the_terminal_stays_whole() -> None:
    text = io.StringIO()
    directory = Path("runs") / ("a-long-name" * 8)
    Progress(Console(file=text, force_terminal=True, width=40)).already_done("dense", directory)
    assert str(directory) in text.getvalue().splitlines()


def test_the_remedies_that_a_pruner_names_are_options_on_the_command_line() -> None:
    layer = torch.nn.Linear(1000, 10)
    with torch.no_grad():
        layer.weight[1:] = 0
        layer.weight[:, 3:] = 0
    with pytest.warns(SparsityWarning) as warned:
        Hold(layer, torch.optim.SGD(layer.parameters()))
    said = in_options(str(warned[0].message))
    assert "floor = 0.01 in [pruning], rank with --score lamp" in said
    assert "leave the layers out with exclude in [pruning]." in said

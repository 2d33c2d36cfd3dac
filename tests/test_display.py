"""What is going on is shown on any terminal, at any width, and leaves nothing behind."""

import io
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from rich.cells import cell_len
from rich.console import Console
from safetensors.numpy import save_file

from asni.display import Display, Row, drawn, on_stderr, time_left
from tests.drawing import drawn_lines

FACTS = ["epoch 12/50", "92.26 %", "50,610 nonzeros", "loss 0.2417"]


def on_terminal(text: io.StringIO, width: int = 80, **environment: str) -> Display:
    return Display(Console(file=text, force_terminal=True, width=width, height=24, _environ=environment))


def lines(width: int, *rows: Row, height: int = 24, ascii_only: bool = False) -> list[str]:
    return [line.plain for line in drawn(rows, width, height, ascii_only=ascii_only)]


@pytest.mark.parametrize(
    ("width", "kept"),
    [(34, 0), (50, 1), (60, 2), (77, 3), (140, 4)],
)
def test_a_narrow_terminal_loses_the_loss_first_and_never_the_percentage_and_the_time_left(
    width: int, kept: int
) -> None:
    [line] = lines(width, Row("asni-1", 0.456, "12 s left", FACTS))
    assert [fact in line for fact in FACTS] == [True] * kept + [False] * (4 - kept)
    assert re.match(r"asni-1  .* 45 %  12 s left", line)
    assert len(line) <= width


@pytest.mark.parametrize("width", [60, 80, 140])
def test_rows_share_their_columns_whatever_their_names(width: int) -> None:
    rows = [
        Row("cifar10-resnet18--epochs-10 seed 0 magnitude-retrain", 0.1, "> 1 h 23 min left", FACTS),
        Row("実験 seed 1 dense", 0.999, time_left(None), ["starting"]),
        Row("runs 2, 3 of 4", 1.0, "0 s left"),
    ]
    drawing = lines(width, *rows)
    assert all(cell_len(line) <= width for line in drawing)
    assert "magnitude-retrain" in drawing[0]
    assert len({cell_len(line.partition(" %")[0]) for line in drawing}) == 1
    assert [re.findall(r"\d+ %", line)[0] for line in drawing] == ["10 %", "99 %", "100 %"]
    assert ["left" in line for line in drawing] == [True] * 3


def test_more_rows_than_a_terminal_has_lines_keep_the_whole_in_sight() -> None:
    runs = [Row(f"seed {seed}", 0.5, "1 s left") for seed in range(100)]
    drawing = lines(80, *runs, Row("run 1 of 100", 0.5, "1 h 0 min left"), height=10)
    assert len(drawing) < 10
    assert drawing[0].startswith("seed 0 ")
    assert "and 93 more" in drawing[-2]
    assert drawing[-1].startswith("run 1 of 100")


def test_a_status_vanishes_and_the_cursor_comes_back_also_after_ctrl_c() -> None:
    text = io.StringIO()
    with pytest.raises(KeyboardInterrupt), on_terminal(text).status("Loading torch"):
        raise KeyboardInterrupt
    assert any("Loading torch" in line for line in drawn_lines(text))
    after = text.getvalue().rpartition("torch")[2]
    assert re.search(r"\x1b\[\?25h.*\x1b\[1A\x1b\[2K$", after, re.DOTALL)


def test_the_newest_row_is_drawn_above_those_that_it_is_part_of() -> None:
    text = io.StringIO()
    display = on_terminal(text)
    with display.status("the study"), display.status("the download"):
        pass
    drawing = drawn_lines(text)
    first = next(number for number, line in enumerate(drawing) if "the download" in line)
    assert "the study" in drawing[first + 1]


def test_items_are_counted() -> None:
    text = io.StringIO()
    assert list(on_terminal(text).track(["a", "b"], "Reading 2 runs")) == ["a", "b"]
    assert re.match(r"Reading 2 runs .* 0 %  -- left  0 of 2", drawn_lines(text)[0])


@pytest.mark.parametrize("term", ["dumb", "unknown"])
def test_a_terminal_that_cannot_redraw_keeps_what_is_said(term: str) -> None:
    text = io.StringIO()
    with on_terminal(text, TERM=term).status("Loading torch"):
        pass
    assert text.getvalue() == "Loading torch\n"


def test_without_colours_only_the_cursor_is_controlled() -> None:
    text = io.StringIO()
    with on_terminal(text, NO_COLOR="1").showing(lambda: [Row("dense", 0.5, "1 s left", FACTS)]):
        pass
    assert "dense" in text.getvalue()
    assert not re.search(r"\x1b\[[\d;]*m", text.getvalue())


def test_an_ascii_terminal_gets_ascii() -> None:
    raw = io.BytesIO()
    ascii_file = io.TextIOWrapper(raw, encoding="ascii")
    display = Display(Console(file=ascii_file, force_terminal=True, width=43))
    with display.showing(lambda: [Row("digits-fc--epochs-10 seed 0 asni-1", 0.5, "1 s left"), Row("Loading torch")]):
        pass
    ascii_file.flush()
    assert "...chs-10 seed 0 asni-1   50 %  1 s left" in raw.getvalue().decode("ascii")


def test_a_pipe_gets_nothing_even_if_colours_are_forced(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    with Display().status("Loading torch"):
        pass
    assert capsys.readouterr() == ("", "")


def test_there_is_one_display() -> None:
    assert on_stderr() is on_stderr()


def on_a_terminal(command: list[str], folder: Path) -> tuple[str, str]:
    """What a command writes to stdout, which is a pipe, and to stderr, which is a terminal."""
    controller, terminal = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80"}
    done = subprocess.run(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=terminal, text=True, timeout=60, check=True
    )
    os.write(terminal, b"END")
    os.close(terminal)
    shown = os.read(controller, 1 << 16).decode().removesuffix("END")
    os.close(controller)
    return done.stdout, shown


def test_a_command_on_a_terminal_says_what_it_does_and_only_the_result_stays(tmp_path: Path) -> None:
    save_file({"weight": np.eye(50, dtype=np.float32)}, tmp_path / "net.safetensors")
    said, shown = on_a_terminal([sys.executable, "-m", "asni", "pack", "net.safetensors", "-o", "net.asni"], tmp_path)
    assert "Packing net.safetensors" in shown
    assert shown.endswith("\x1b[1A\x1b[2K")
    assert re.search(r"^10,000 -> [\d,]+ bytes \(\d+x\)   next: python -m asni inspect net.asni$", said, re.MULTILINE)
    assert said.isascii()
    assert "\x1b" not in said


def test_a_program_that_packs_its_own_model_has_its_terminal_to_itself(tmp_path: Path) -> None:
    program = 'import asni, torch; print(asni.pack(torch.nn.Linear(9, 9), "net.asni").mode)'
    assert on_a_terminal([sys.executable, "-c", program], tmp_path) == ("exact\n", "")

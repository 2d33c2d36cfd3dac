"""A command ends with what was achieved, and with a command that works."""

import re
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from asni import datasets
from asni.cli.endings import beside_paper, best, end
from tests.cli.calling import Answer, Command

SHORT = ("--epochs", "1", "--steps-per-epoch", "2", "--sparsity", "0.9", "--device", "cpu")


def next_step(answer: Answer) -> list[str]:
    """The words of the command that was suggested, as a shell reads them."""
    asni, *words = shlex.split(answer.out.rpartition("next: ")[2])
    assert asni == "asni"
    return words


def test_each_training_and_each_file_lead_to_the_next(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    dense = command("train", "digits-fc", "--method", "dense", "--out", "my runs", *SHORT)
    assert next_step(dense)[:2] == ["train", "digits-fc"]
    assert next_step(dense)[-4:] == ["--device", "cpu", "--out", "my runs"]
    sparse = command(*next_step(dense))
    assert "50,610 -> " in sparse.out
    assert " %, shortened   next: asni pack 'my runs/" in sparse.out
    packed = command(*next_step(sparse))
    assert "202,440 -> " in packed.out
    inspected = command(*next_step(packed))
    assert "net.asni: exact" in inspected.out
    from_file = command("train", "--from", "net.asni", "--device", "cpu")
    assert next_step(from_file)[-2:] == ["-o", "net-2.asni"], "not the file that it started from"
    studied = command("compare", "digits-fc", "--methods", "dense,asni-1", "--out", "my runs", *SHORT)
    assert "weights, dense" in studied.out
    assert next_step(studied) == ["report", "my runs", "--open"]
    report = command("report", "my runs", "-o", "page.html")
    monkeypatch.setenv("BROWSER", "true")
    opened = command(*next_step(report))
    assert (opened.status, "page.html: 2 runs" in opened.out, "next:" in opened.out) == (0, True, False)


def test_json_has_no_ending(command: Command, tmp_path: Path) -> None:
    answer = command("train", "digits-fc", "--method", "dense", "--out", str(tmp_path), "--json", *SHORT)
    assert "next:" not in answer.out


def test_an_ending_that_is_too_wide_takes_two_lines(command: Command, tmp_path: Path) -> None:
    save_file({"weight": np.eye(50, dtype=np.float32)}, tmp_path / "net.safetensors")
    packed = command.on_terminal(60, "pack", str(tmp_path / "net.safetensors"), "-o", str(tmp_path / "a net.asni"))
    assert re.fullmatch(r"10,000 -> \d+ bytes \(\d+x\)", packed.out.splitlines()[-2])
    assert packed.out.splitlines()[-1] == f"next: asni inspect '{tmp_path}/a net.asni'"


def line(method: str, accuracy: float, *, sparsity: float = 0.9) -> dict[str, object]:
    return {"method": method, "accuracy": accuracy, "total_sparsity": sparsity, "nonzeros": 2920.0}


def test_a_comparison_ends_with_the_most_accurate_sparse_method() -> None:
    dense, lines = line("dense", 95.0, sparsity=0), [line("snip", 90.0), line("gmp", 93.5)]
    assert best([dense]) == "dense: 95.00 %"
    assert best(lines[:1]) == "snip, 90.00 % with 2,920 weights"
    assert best([dense, *lines]) == "best of 2 sparse methods: gmp, 93.50 % with 2,920 weights, dense 95.00 %"


def row(variant: str, accuracy: float | None, *, shortened: bool = False) -> dict[str, object]:
    return {"variant": variant, "accuracy": accuracy, "paper_accuracy": 96.0, "shortened": shortened}


def test_a_reproduction_ends_with_the_best_variant_beside_the_paper() -> None:
    rows = [row("dense", 99.0), row("asni-1", 95.0), row("asni-2", 94.0), row("asni-2", 97.0)]
    assert beside_paper(rows) == "best sparse variant: asni-2, 95.50 % over 2 rows (paper: 96.00 %)"
    short = [row("asni-1", 50.0, shortened=True)]
    assert beside_paper(short) == "best sparse variant: asni-1, 50.00 % (paper: 96.00 %, which trained for longer)"
    assert beside_paper([row("asni-1", None)]) == ""


def test_ctrl_c_outside_a_training_ends_in_one_line(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def pressed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(datasets, "get", pressed)
    assert command("data", "get", "digits") == Answer(130, "", "asni: stopped.\n")


def test_the_next_command_starts_as_this_one_was_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / ".venv" / "bin" / "asni"
    program.parent.mkdir(parents=True)
    program.touch(mode=0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "")
    for called in (str(program), ".venv/bin/asni", "/site-packages/asni/__main__.py"):
        monkeypatch.setattr(sys, "argv", [called])
        end("", "report", Path("runs"))
    monkeypatch.setenv("PATH", str(program.parent))
    monkeypatch.setattr(sys, "argv", [str(program)])
    end("", "report", Path("-x"))
    assert capsys.readouterr().out.splitlines() == [
        "next: .venv/bin/asni report runs",
        "next: .venv/bin/asni report runs",
        "next: python -m asni report runs",
        "next: asni report ./-x",
    ]

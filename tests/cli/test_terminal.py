"""A terminal of any width shows whole lines, without colours and glyphs where it has none; a pipe gets all columns."""

import re
from pathlib import Path

import pytest
import torch

import asni
from tests.cli.calling import Command
from tests.cli.test_reproduce import RECIPE

STUDIES = ("reproduce", "compare", "investigate")
LISTS = (["recipes"], ["methods"], ["plan", "cifar10-resnet18"], ["plan", "digits-fc", "--epochs", "3"])
HELPS = (["--help"], ["train", "--help"], ["compare", "--help"], ["report", "--help"], ["data", "get", "--help"])
ESCAPE = re.compile(r"\x1b\[([\d;]*)m")


def too_long(text: str, width: int) -> list[str]:
    return [line for line in ESCAPE.sub("", text).splitlines() if len(line) > width]


@pytest.mark.parametrize("width", [60, 80, 140])
@pytest.mark.parametrize("arguments", [*LISTS, *HELPS], ids=" ".join)
def test_no_line_is_longer_than_the_terminal(command: Command, width: int, arguments: list[str]) -> None:
    answer = command.on_terminal(width, *arguments)
    assert answer.status == 0
    assert too_long(answer.out, width) == []


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    state = {f"encoder.layers.{layer}.attention.in_projection.weight": torch.eye(40) for layer in range(2)}
    torch.save(state, folder / "net.pt")
    asni.pack(state, folder / "net.asni")
    return folder


@pytest.mark.parametrize("width", [60, 80, 140])
@pytest.mark.parametrize("arguments", [["net.pt"], ["net.pt", "--sparsity", "0.9"], ["net.asni"]], ids=" ".join)
def test_a_long_name_is_shortened_in_the_middle_and_numbers_never(
    command: Command, files: Path, monkeypatch: pytest.MonkeyPatch, width: int, arguments: list[str]
) -> None:
    monkeypatch.chdir(files)
    shown = command.on_terminal(width, "inspect", *arguments).out
    assert too_long(shown, width) == []
    lines = [line for line in shown.splitlines() if line.startswith("encoder.")]
    assert len(lines) == 2
    assert all(re.search(r"\.weight .*\b40\b", line) for line in lines)


@pytest.fixture(scope="module")
def studied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("studied")
    (folder / "a-recipe-with-a-long-name.toml").write_text(RECIPE.format(lr=1.2e-3))
    # As if they were drawn before.
    (folder / "runs" / "a-recipe-with-a-long-name--epochs-1" / "seed-0" / "figures").mkdir(parents=True)
    return folder


@pytest.mark.parametrize("width", [60, 80, 140])
@pytest.mark.parametrize("study", STUDIES)
def test_a_study_shows_accuracy_and_nonzeros_at_every_width(
    command: Command, studied: Path, monkeypatch: pytest.MonkeyPatch, width: int, study: str
) -> None:
    monkeypatch.chdir(studied)
    methods = ["--methods", "dense,asni-1,asni-2,original"] if study == "compare" else []
    answer = command.on_terminal(width, study, "a-recipe-with-a-long-name.toml", "--epochs", "1", *methods)
    assert answer.status == 0, answer.err
    table = answer.out.partition("runs: ")[0]
    assert too_long(table, width) == []
    heading, dense = (next(line for line in table.splitlines() if word in line) for word in ("accuracy %", "dense"))
    assert "nonzeros" in heading
    assert "50,610" in dense
    assert ("shortened (1 of 3)" in dense) == ("epochs" in heading), "how long it trained is never cut"
    assert width == 80 or ("not shown at 60 columns" in table) == (width == 60)


def test_what_is_left_out_is_named_and_a_pipe_has_all(command: Command) -> None:
    narrow = command.on_terminal(80, "recipes", no_color=True).out
    assert "not shown at 80 columns: batch, paper's row; --json has all" in narrow
    assert "paper's nonzeros" in narrow
    whole = command("recipes").out
    assert "not shown" not in whole
    assert whole.splitlines()[0].split("  ")[-1] == "paper's row"


@pytest.mark.parametrize("arguments", [*LISTS, *HELPS], ids=" ".join)
def test_without_colour_and_beyond_ascii_nothing_is_printed_that_was_not_wanted(
    command: Command, arguments: list[str]
) -> None:
    shown = command.on_terminal(80, *arguments, encoding="ascii", no_color=True).out
    # Bold and dim are not colours.
    assert {code for codes in ESCAPE.findall(shown) for code in codes.split(";")} <= {"0", "1", "2"}
    assert too_long(shown, 80) == []
    assert "\x1b" not in command(*arguments).out


def test_a_name_that_the_terminal_cannot_show_is_escaped(command: Command, tmp_path: Path) -> None:
    torch.save({"größe.weight": torch.eye(3)}, tmp_path / "net.pt")
    answer = command.on_terminal(80, "inspect", str(tmp_path / "net.pt"), encoding="ascii")
    assert answer.status == 0
    assert r"gr\xf6\xdfe.weight" in answer.out

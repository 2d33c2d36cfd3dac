import json
import runpy
import sys
from pathlib import Path

import pytest

from tests.cli.calling import Command

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_the_loop_runs_as_it_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / "own_loop.py"), run_name="__main__")
    printed = capsys.readouterr().out
    assert "ASNI-I: 1,110 weights" in printed
    assert "4 numbers" in printed
    assert "ASNI-II: 1,110 weights" in printed


def test_the_recipe_trains_as_it_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(EXAMPLES)
    monkeypatch.setattr(sys, "path", list(sys.path))
    answer = Command(capsys, monkeypatch)("train", "own_recipe.toml", "--out", str(tmp_path / "run"), "--json")
    result = json.loads(answer.out)
    assert result["sparsity"] == pytest.approx(0.9, abs=1e-3)
    assert result["accuracy"] > 80

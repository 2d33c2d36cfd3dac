import runpy
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_the_example_runs_as_it_is_written(example: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(example), run_name="__main__")
    printed = capsys.readouterr().out
    assert "ASNI-I: 1,110 weights" in printed
    assert "amenable from 4 numbers" in printed
    assert "ASNI-II: 1,110 weights" in printed

"""The examples in docstrings of figures draw runs, as a user has them in the current directory."""

from pathlib import Path

import pytest

from tests.figures.made_runs import make_run, random_weights


@pytest.fixture(autouse=True)
def _runs_to_draw(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if isinstance(request.node, pytest.DoctestItem) and request.node.path.parent.name == "figures":
        home: Path = request.getfixturevalue("tmp_path")
        for method in ("asni-1", "dense"):
            make_run(home / "runs" / "digits-fc" / "seed-0" / method, random_weights("linear1", "linear2"))
        monkeypatch.chdir(home)

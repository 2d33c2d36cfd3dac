"""What asni believes that it may use of a machine."""

from pathlib import Path

import pytest

from asni.engine import machine


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        pytest.param([], None, id="no container"),
        pytest.param(["max\n"], None, id="a container without a limit"),
        pytest.param(["9223372036854771712\n"], None, id="no limit, as cgroups 1 say it"),
        pytest.param(["1048576\n"], 2**20, id="a limit"),
        pytest.param(["max\n", "1048576\n"], 2**20, id="a limit of one of two"),
    ],
)
def test_memory_is_that_of_the_container(
    tmp_path: Path, limits: list[str], expected: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [tmp_path / str(number) for number in range(2)]
    monkeypatch.setattr(machine, "CONTAINER_LIMITS", paths)
    of_the_machine = machine.memory()
    for path, limit in zip(paths, limits, strict=False):
        path.write_text(limit)
    assert machine.memory() == (of_the_machine if expected is None else expected)

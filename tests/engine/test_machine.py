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


@pytest.mark.parametrize(
    ("cpuinfo", "expected"),
    [
        (
            "processor\t: 0\ncpu family\t: 6\nmodel name\t: Intel(R) Core(TM) i5-8250U CPU\n",
            "Intel(R) Core(TM) i5-8250U CPU",
        ),
        ("cpu family\t: 25\nmodel name\t: AMD EPYC\n\nprocessor\t: 1\n", "AMD EPYC, family 25"),
        ("processor\t: 0\nmodel name\t: Cortex\n", "Cortex"),
    ],
)
def test_processors_of_one_name_are_told_apart(
    tmp_path: Path, cpuinfo: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "CPUINFO", tmp_path / "cpuinfo")
    (tmp_path / "cpuinfo").write_text(cpuinfo)
    assert machine.processor() == expected

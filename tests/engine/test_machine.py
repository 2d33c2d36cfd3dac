"""What asni believes that it may use of a machine."""

from pathlib import Path

import pytest

from asni.engine import machine


@pytest.mark.parametrize(
    ("own", "limits", "expected"),
    [
        pytest.param("", {"memory.max": "1048576"}, None, id="not in a group"),
        pytest.param("0::/", {}, None, id="in no container"),
        pytest.param("0::/", {"memory.max": "max"}, None, id="a container without a limit"),
        pytest.param("0::/", {"memory.max": "1048576"}, 2**20, id="a container"),
        pytest.param("0::/job/step", {"job/memory.max": "1048576", "job/step/memory.max": "max"}, 2**20, id="a job"),
        pytest.param("0::/a", {"memory.max": "2097152", "a/memory.max": "1048576"}, 2**20, id="two limits"),
        pytest.param("4:memory:/", {"memory/memory.limit_in_bytes": "1048576"}, 2**20, id="cgroups 1"),
        pytest.param(
            "4:memory:/", {"memory/memory.limit_in_bytes": "9223372036854771712"}, None, id="no limit in cgroups 1"
        ),
        pytest.param(
            "2:cpu:/\n4:memory:/a", {"memory/a/memory.limit_in_bytes": "1048576"}, 2**20, id="a job, cgroups 1"
        ),
    ],
)
def test_memory_is_that_of_the_groups_that_the_process_is_in(
    tmp_path: Path, own: str, limits: dict[str, str], expected: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "OWN_GROUPS", tmp_path / "own")
    monkeypatch.setattr(machine, "GROUPS", tmp_path / "groups")
    of_the_machine = machine.memory()
    (tmp_path / "own").write_text(f"{own}\n" * bool(own))
    for path, limit in limits.items():
        (tmp_path / "groups" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "groups" / path).write_text(f"{limit}\n")
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

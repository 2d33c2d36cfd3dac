"""The machine that the engine runs on: its processor, the cores that this process may use, its memory."""

import os
import platform
import subprocess
from collections.abc import Iterator
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")
OWN_GROUPS, GROUPS = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")
"""The control groups of this process, such as a container or a cluster's job, and where Linux keeps all of them."""


def processor() -> str:
    """The name of the processor, or of its architecture where the system does not tell more."""
    return _name_on_linux() or _name_on_macos() or platform.processor() or platform.machine()


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def memory() -> int | None:
    """The bytes of memory that this process may use, or None where the system does not tell."""
    try:
        known = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    except (AttributeError, ValueError, OSError):
        known = []
    return min([*known, *_limits_of_groups()], default=None)


def _limits_of_groups() -> Iterator[int]:
    """The limits of this process's control groups, of both versions, and of the groups around them."""
    for line in _lines(OWN_GROUPS):
        _, controllers, path = line.split(":", 2)
        if controllers not in ("", "memory"):
            continue
        file = "memory.limit_in_bytes" if controllers else "memory.max"
        own = GROUPS / controllers / path.lstrip("/")
        for group in (own, *own.parents):
            # A group without a limit says "max".
            yield from (int(limit) for limit in _lines(group / file) if limit.isdigit())


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(errors="replace").splitlines()
    except OSError:
        return []


def _name_on_linux() -> str:
    known = dict(_field(line) for line in _lines(CPUINFO))
    name = known.get("model name", "")
    # Without a number, the name is that of several generations: "AMD EPYC".
    is_vague = name and "cpu family" in known and not any(each.isdigit() for each in name)
    return f"{name}, family {known['cpu family']}" if is_vague else name


def _field(line: str) -> tuple[str, str]:
    name, _, value = line.partition(":")
    return name.strip(), value.strip()


def _name_on_macos() -> str:
    if platform.system() != "Darwin":
        return ""
    asked = ["sysctl", "-n", "machdep.cpu.brand_string"]
    try:
        return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        return ""

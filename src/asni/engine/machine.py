"""The machine that the engine runs on: its processor, the cores that this process may use, its memory."""

import os
import platform
import subprocess
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")
CONTAINER_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
"""Where Linux tells a container how much memory it may use, in the second and the first version of cgroups."""


def processor() -> str:
    """The name of the processor, or of its architecture where the system does not tell more."""
    return _name_on_linux() or _name_on_macos() or platform.processor() or platform.machine()


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def memory() -> int | None:
    """The bytes of memory that this process may use, of the machine or its container; None where nobody tells."""
    try:
        known = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    except (AttributeError, ValueError, OSError):
        known = []
    return min([*known, *(limit for path in CONTAINER_LIMITS if (limit := _number_in(path)))], default=None)


def _number_in(path: Path) -> int | None:
    """The number that a file holds; a container without a limit says "max"."""
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


def _name_on_linux() -> str:
    try:
        lines = CPUINFO.read_text(errors="replace").splitlines()
    except OSError:
        return ""
    known = dict(_field(line) for line in lines)
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

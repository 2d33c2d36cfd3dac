"""The software and hardware that a result may depend on."""

import os
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch


def environment() -> dict[str, Any]:
    """Versions, processor, threads, and the commit of the code if it runs from a git checkout."""
    return {
        "python": platform.python_version(),
        **{package: version(package) for package in ("asni", "torch", "numpy", "lightning-fabric")},
        "platform": platform.platform(),
        "cpu": torch.backends.cpu.get_cpu_capability(),
        "cuda": torch.version.cuda if torch.cuda.is_available() else None,
        "threads": torch.get_num_threads(),
        "commit": _commit(),
    }


def _commit() -> str | None:
    here = os.fspath(Path(__file__).parent)
    git = ["git", "-C", here, "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        answer = subprocess.run(git, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return answer.stdout.strip() or None

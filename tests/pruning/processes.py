"""Runs checks in several real processes that are started once."""

import gc
import json
import traceback
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path

import torch
from torch.multiprocessing.spawn import spawn

Check = Callable[[], None]


def failures(checks: Mapping[str, Check], processes: int, folder: Path) -> dict[str, list[str]]:
    """Check -> the tracebacks of the processes in which it failed."""
    spawn(_run, (processes, checks, folder), nprocs=processes)
    found: dict[str, list[str]] = {name: [] for name in checks}
    for rank in range(processes):
        for name, text in json.loads((folder / f"{rank}.json").read_text()).items():
            found[name].append(text)
    return found


def _run(rank: int, processes: int, checks: Mapping[str, Check], folder: Path) -> None:
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo",
        init_method=f"file://{folder}/store",
        rank=rank,
        world_size=processes,
        # A process that waits in vain ends with an error.
        timeout=timedelta(seconds=60),
    )
    failed = {}
    for name, check in checks.items():
        try:
            check()
        except Exception:
            failed[name] = traceback.format_exc()
    (folder / f"{rank}.json").write_text(json.dumps(failed))
    # Models in cycles keep their process group, whose threads would abort an interpreter that is ending.
    gc.collect()
    torch.distributed.destroy_process_group()

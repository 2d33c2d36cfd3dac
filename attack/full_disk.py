"""A disk that is full: an error names the file, no partial file has a final name, and with more space all ends well.

Needs the right to mount a tmpfs, which root has.
"""

import os
import random
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from asni.runs import names
from attack.calling import Answer, asni
from attack.made_data import FOLDER, use_made_data, write_made_data
from attack.outcomes import Tally
from attack.small_runs import HOME, OUT, RECIPE, files_of, leftovers, scratch, trained_once

ENOUGH = 64 * 2**20
COMMANDS = {
    "train": ("train", *RECIPE, "--out", "{disk}"),
    "pack": ("pack", str(HOME / "asni-1"), "--out", "{disk}/net.asni"),
    "report": ("report", OUT, "--out", "{disk}/report.html"),
    "data get": ("data", "get", "mnist", "--from", FOLDER),
    "investigate": ("investigate", *RECIPE, "--out", "{disk}"),
}


def run(seed: int, amount: int) -> dict[str, int]:
    """Disks of random sizes below what each command needs."""
    tally, rng = Tally(), random.Random(f"full disk {seed}")
    with scratch() as folder:
        write_made_data(trained_once(folder))
        if why := _cannot_mount(folder):
            print(f"full_disk: skipped, a tmpfs cannot be mounted ({why})")
            return {"skipped": amount}
        complete = {name: _undisturbed(folder, name) for name in list(COMMANDS)[:amount]}
        for number in range(amount):
            name = list(COMMANDS)[number % len(COMMANDS)]
            files, needed = complete[name]
            size = rng.randrange(4096, max(needed, 8192))
            case = f"full_disk --seed {seed}, case {number}: {name} on a disk of {size:,} bytes"
            tally.add(case, _attack(folder, name, size, files))
    return tally.counts()


def _undisturbed(folder: Path, name: str) -> tuple[dict[str, str], int]:
    """What a command leaves, and the space that it takes."""
    with _disk(ENOUGH) as disk:
        answer = _call(folder, name, disk)
        assert answer.status == 0, answer.err
        space = os.statvfs(disk)
        return files_of(disk), (space.f_blocks - space.f_bfree) * space.f_frsize


def _attack(folder: Path, name: str, size: int, expected: dict[str, str]) -> str:
    with _disk(size) as disk:
        first = _call(folder, name, disk)
        if first.failure:
            return first.failure
        if first.status == 0:
            return "fits"
        if str(disk) not in first.err:
            return "unexplained"
        if _partial(files_of(disk), expected):
            return "other numbers"
        subprocess.run(["mount", "-o", f"remount,size={ENOUGH}", str(disk)], check=True)
        second = _call(folder, name, disk)
        if second.failure or second.status:
            return second.failure or "unexplained"
        if files_of(disk) != expected:
            return "other numbers"
        return "leftovers" if leftovers(disk) else "refused, then identical"


def _partial(found: dict[str, str], expected: dict[str, str]) -> bool:
    """Whether a file with a final name is not what it should be; metrics grow with every epoch."""
    return any(
        found[name] != expected[name] for name in found.keys() & expected.keys() if Path(name).name != names.METRICS
    )


def _call(folder: Path, name: str, disk: Path) -> Answer:
    arguments = [word.replace("{disk}", str(disk)) for word in COMMANDS[name]]
    prepare = use_made_data if name == "data get" else None
    return asni(folder, *arguments, prepare=prepare, environment={"ASNI_DATA": str(disk)})


@contextmanager
def _disk(size: int) -> Iterator[Path]:
    with scratch() as place:
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)], check=True, text=True)
        try:
            yield place
        finally:
            subprocess.run(["umount", str(place)], check=True)


def _cannot_mount(folder: Path) -> str:
    """Why no disk can be made; empty if one can."""
    try:
        with _disk(ENOUGH):
            return ""
    except (OSError, subprocess.CalledProcessError) as error:
        return str(error)

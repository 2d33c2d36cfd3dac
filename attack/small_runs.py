"""Small trainings to attack, and what must come out of them: their files without what differs from run to run."""

import hashlib
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from asni.methods import VARIANTS
from asni.runs import names
from attack.calling import Answer, Prepare, asni

RECIPE = ("digits-fc", "--epochs", "4", "--steps-per-epoch", "6")
STEPS = 4 * 6
VARIANT = "digits-fc--epochs-4--steps-per-epoch-6"
OUT = "runs"
HOME = Path(OUT, VARIANT, "seed-0")
OTHER_HOME = Path(OUT, VARIANT, "seed-1")
METHODS = ("dense", "asni-1", "asni-2")

_OWN_TO_EACH_RUN = {"seconds", "directory", "checksum"}
_RESULT = ("stage", "rounds", "seed", "epochs", "steps", "accuracy", "nonzeros", "sparsity", "total_sparsity")


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder that is removed at the end, even if what outlived a kill still writes to it."""
    with TemporaryDirectory(prefix="asni-attack-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def train(folder: Path, method: str, *more: str, prepare: Prepare | None = None) -> Answer:
    return asni(folder, "train", *RECIPE, "--method", method, "--out", OUT, *more, prepare=prepare)


def trained(folder: Path) -> Path:
    """A folder with the four variants of two seeds, trained without disturbance."""
    answer = asni(folder, "compare", *RECIPE, "--methods", ",".join(VARIANTS), "--seeds", "2", "--out", OUT)
    assert answer.status == 0, answer.err
    return folder


def trained_once(folder: Path) -> Path:
    """A folder with one ASNI-I run."""
    answer = train(folder, "asni-1")
    assert answer.status == 0, answer.err
    return folder


def copied(original: Path, folder: Path) -> None:
    """Hard links would let a command change the original."""
    shutil.copytree(original / OUT, folder / OUT)


def files_of(root: Path) -> dict[str, str]:
    """The final files below a folder and a digest of what must not differ: all but times, machines and logs."""
    found = {}
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root)
        hidden = any(part.startswith(".") for part in name.parts)
        if path.is_file() and not hidden and path.suffix != ".log" and path.name != "lock":
            found[name.as_posix()] = hashlib.sha256(_lasting(path)).hexdigest()[:16]
    return found


def leftovers(root: Path) -> list[str]:
    """Temporary files and folders, which a finished command must not leave; locks stay."""
    return [path.name for path in root.rglob(".*") if not path.name.endswith("lock")]


def numbers(text: str) -> str:
    """JSON without times, places and nulls; other text unchanged."""
    try:
        return json.dumps(_without(json.loads(text)))
    except ValueError:
        return text


def _lasting(path: Path) -> bytes:
    if path.name == names.ENVIRONMENT:
        return b""
    if path.name == names.METRICS:
        return "\n".join(numbers(line) for line in path.read_text(errors="replace").splitlines()).encode()
    if path.name == names.REQUEST:
        return numbers(path.read_text(errors="replace")).encode()
    if path.name == names.RESULT:
        result = json.loads(path.read_text())
        return json.dumps({key: result.get(key) for key in _RESULT}).encode()
    return path.read_bytes()


def _without(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without(each) for key, each in value.items() if key not in _OWN_TO_EACH_RUN and each is not None}
    return [_without(each) for each in value] if isinstance(value, list) else value

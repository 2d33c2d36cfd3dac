"""The last two checkpoints of an unfinished run: if the newer one is damaged, the older one is used."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from asni.errors import DamagedError
from asni.files import read_checkpoint, write_checkpoint
from asni.runs import names


def save(directory: Path, epochs: int, state: Mapping[str, Any]) -> None:
    """Write the state after this many epochs, and remove all checkpoints but this one and the one before it."""
    write_checkpoint(directory / names.checkpoint_name(epochs), state)
    for earlier, path in found(directory).items():
        if earlier not in (epochs, epochs - 1):
            path.unlink(missing_ok=True)


def found(directory: Path) -> dict[int, Path]:
    """The checkpoints by their number of epochs, the newest first."""
    files = directory.iterdir() if directory.is_dir() else ()
    numbered = {epochs: path for path in files if (epochs := names.checkpoint_epochs(path.name)) is not None}
    return dict(sorted(numbered.items(), reverse=True))


def newest(directory: Path, request: str) -> tuple[dict[str, Any] | None, list[str]]:
    """The newest sound state of the run whose request has this digest, and what is wrong with the newer ones."""
    wrong: list[str] = []
    for path in found(directory).values():
        try:
            state = read_checkpoint(path)
        except DamagedError as error:
            wrong.append(str(error))
            continue
        if _request(state) == request:
            return state, wrong
        wrong.append(f"{path} is a checkpoint of another run")
    return None, wrong


def _request(state: Mapping[str, Any]) -> object:
    """The digest of the request with which the run was started."""
    files = state.get("files")
    return files.get(names.REQUEST) if isinstance(files, dict) else None

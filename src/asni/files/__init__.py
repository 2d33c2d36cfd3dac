"""Reads files within bounds, and writes them atomically: no reader sees a partly written file, even after a crash."""

import errno
import hashlib
import io
import json
import os
import re
import secrets
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asni.errors import AsniError, DamagedError, UsageError

if TYPE_CHECKING:
    from torch import Tensor


_TEMPORARY = re.compile(r"\.(?P<file>.+)\.[0-9a-f]{8}")
_KINDS = {stat.S_IFIFO: "a FIFO", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device", stat.S_IFSOCK: "a socket"}


def regular_size(path: Path, limit: int | None = None) -> int:
    """The bytes of a file; an OSError for more than `limit`, and for a FIFO or a device, which may never end."""
    try:
        found = path.stat()
    except ValueError as error:
        raise OSError(errno.EINVAL, f"not a path ({error})") from error
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, "Is a directory", str(path))
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, f"it is {_KINDS.get(stat.S_IFMT(found.st_mode), 'special')}, not a file")
    if limit is not None and found.st_size > limit:
        raise OSError(errno.EFBIG, f"it has {found.st_size:,} bytes, more than the {limit:,} that are allowed")
    return found.st_size


def read_bounded(path: Path, limit: int) -> bytes:
    """The content of a regular file of at most `limit` bytes."""
    regular_size(path, limit)
    with path.open("rb") as file:
        return file.read(limit)


def expanded(path: str | Path, what: str) -> Path:
    """The path with a leading `~` or `~user` replaced; `what` names it in an error."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise UsageError(f"{what} = {str(path)!r}: there is no home folder of that user.") from None


def make_directory(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise AsniError(f"cannot create the directory {path}: {error.strerror}.") from error


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a temporary file next to `path`, then rename it; on an error, the temporary file is removed.

    If `path` is a symbolic link, its target is written.
    """
    make_directory(path.parent)
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        raise AsniError(f"cannot write {path}: it is a directory or a device, not a file.")
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        # Not by tempfile, whose files only their owner can read.
        temporary.touch(exist_ok=False)
        write(temporary)
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.replace(target)
    except OSError as error:
        raise AsniError(f"cannot write {path}: {error.strerror or error}.") from error
    finally:
        temporary.unlink(missing_ok=True)


def remove_temporaries(directory: Path, written: Callable[[str], bool]) -> None:
    """Remove what killed processes had begun to write; `written` says of which files. Hold their lock meanwhile."""
    for path in directory.iterdir():
        if (found := _TEMPORARY.fullmatch(path.name)) and written(found["file"]) and path.is_file():
            path.unlink(missing_ok=True)


def write_bytes(path: Path, content: bytes) -> None:
    write_atomically(path, lambda temporary: temporary.write_bytes(content))


def write_text(path: Path, text: str) -> None:
    write_bytes(path, text.encode())


def write_json(path: Path, value: object) -> None:
    write_text(path, json.dumps(value, indent=2) + "\n")


def write_tensors(path: Path, tensors: "Mapping[str, Tensor]") -> None:
    from safetensors import SafetensorError
    from safetensors.torch import save

    # Tied weights share memory, which safetensors refuses; a reader expects each under its own name anyway.
    separate = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    try:
        # Not by save_file, which writes a temporary file of its own that only its owner can read.
        content = save(separate)
    except (SafetensorError, KeyError) as error:
        raise AsniError(f"cannot write {path}: safetensors cannot store it ({error}).") from error
    write_bytes(path, content)


def read_tensors(path: Path) -> "dict[str, Tensor]":
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise AsniError(f"cannot read {path}: {error}.") from error


def write_checkpoint(path: Path, state: Mapping[str, Any]) -> None:
    """Write a line with the SHA-256 of what follows, then the state as `torch.save` writes it."""
    import torch

    saved = io.BytesIO()
    torch.save(dict(state), saved)
    checksum = hashlib.sha256(saved.getbuffer()).hexdigest()

    def save(temporary: Path) -> None:
        with temporary.open("wb") as file:
            file.write(f"{checksum}\n".encode())
            file.write(saved.getbuffer())

    write_atomically(path, save)


def read_checkpoint(path: Path) -> dict[str, Any]:
    """Read and verify a checkpoint of `write_checkpoint`, without executing code from the file."""
    import torch

    if not path.is_file():
        raise DamagedError(f"{path} is not a file")
    try:
        checksum, _, saved = path.read_bytes().partition(b"\n")
    except OSError as error:
        raise AsniError(f"cannot read {path}: {error.strerror}.") from error
    if checksum != hashlib.sha256(saved).hexdigest().encode():
        raise DamagedError(f"{path} is damaged: its content does not match its checksum")
    try:
        return dict(torch.load(io.BytesIO(saved), map_location="cpu", weights_only=True))
    except Exception as error:
        # What is not a checkpoint can raise almost anything.
        raise DamagedError(f"{path} is not a checkpoint of this version of asni") from error

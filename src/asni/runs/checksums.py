"""How damage is noticed: a JSON object that carries its own checksum, and the digest of a whole file."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from asni.errors import DamagedError
from asni.files import regular_size

KEY = "checksum"


def sealed(content: Mapping[str, Any]) -> dict[str, Any]:
    """A JSON object with the checksum of its content.

    >>> sealed({"seed": 0})
    {'seed': 0, 'checksum': 'de7d7744ccd7722e'}
    """
    return {**content, KEY: _checksum(content)}


def opened(found: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The content of a sealed JSON object."""
    content = {key: value for key, value in found.items() if key != KEY}
    if found.get(KEY) != _checksum(content):
        raise DamagedError(
            f"{where}: its content does not match its checksum; the file is damaged, was edited, or is from an "
            "earlier version of asni"
        )
    return content


def digest(path: Path) -> str:
    """The SHA-256 of a file."""
    regular_size(path)
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _checksum(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]

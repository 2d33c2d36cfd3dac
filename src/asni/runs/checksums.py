"""How damage is noticed: a JSON object that carries its own checksum, and the digest of a whole file."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from asni.errors import AsniError, DamagedError
from asni.files import regular_size
from asni.runs import names

KEY = "checksum"


def sealed(content: Mapping[str, Any], of: str = "") -> dict[str, Any]:
    """A JSON object with the checksum of its content, and of the run that it belongs to.

    >>> sealed({"seed": 0})
    {'seed': 0, 'checksum': 'de7d7744ccd7722e'}
    """
    return {**content, KEY: checksum(content, of)}


def opened(found: Mapping[str, Any], where: str, of: str = "") -> dict[str, Any]:
    """The content of a sealed JSON object."""
    content = {key: value for key, value in found.items() if key != KEY}
    if KEY not in found:
        raise AsniError(f"{where}: it has no checksum; an earlier version of asni wrote it, which this one cannot read")
    if found[KEY] != checksum(content, of):
        other = f", or belongs to another run than the {names.REQUEST} beside it" if of else ""
        raise DamagedError(
            f"{where}: its content does not match its checksum; the file is damaged or was edited{other}"
        )
    return content


def digest(path: Path) -> str:
    """The SHA-256 of a file."""
    regular_size(path)
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def checksum(content: Mapping[str, Any], of: str = "") -> str:
    return hashlib.sha256((of + json.dumps(content, sort_keys=True)).encode()).hexdigest()[:16]

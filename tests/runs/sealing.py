"""Make the checksums of a run agree with files that a test has written or changed by hand."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from asni.runs import names
from asni.runs.checksums import KEY, digest, sealed

_SEALED = (names.REQUEST, names.ENVIRONMENT, names.RESULT)


def seal(run: Path) -> None:
    """Give every file of a run the checksums that asni would have written."""
    for name in _SEALED:
        if (run / name).exists():
            change(run / name, {})
    if (metrics := run / names.METRICS).exists():
        metrics.write_text("".join(f"{sealed_line(json.loads(line))}\n" for line in metrics.read_text().splitlines()))
    if (run / names.RESULT).exists():
        others = {path.name: digest(path) for path in run.iterdir() if path.is_file() and path.name != names.RESULT}
        change(run / names.RESULT, {"files": others})


def change(path: Path, changes: Mapping[str, Any]) -> None:
    """Change values of a JSON file, with the right checksum."""
    path.write_text(sealed_line({**json.loads(path.read_text()), **changes}))


def sealed_line(content: Mapping[str, Any]) -> str:
    return json.dumps(sealed({key: value for key, value in content.items() if key != KEY}))

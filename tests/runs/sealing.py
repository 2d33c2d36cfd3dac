"""Make the checksums of a run agree with files that a test has written or changed by hand."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from asni.runs import names
from asni.runs.checksums import KEY, checksum, digest, sealed

_SEALED = (names.REQUEST, names.ENVIRONMENT, names.RESULT)


def seal(run: Path) -> None:
    """Give every file of a run the checksums that asni would have written."""
    for name in _SEALED:
        if (run / name).exists():
            change(run / name, {})
    if (metrics := run / names.METRICS).exists():
        rows = [json.loads(line) for line in metrics.read_text().splitlines()]
        metrics.write_text("".join(f"{sealed_metrics(run, row)}\n" for row in rows))
    if (run / names.RESULT).exists():
        others = {path.name: digest(path) for path in run.iterdir() if path.is_file() and path.name != names.RESULT}
        change(run / names.RESULT, {"files": others})


def change(path: Path, changes: Mapping[str, Any]) -> None:
    """Change values of a JSON file, with the right checksum."""
    path.write_text(sealed_line({**json.loads(path.read_text()), **changes}))


def sealed_line(content: Mapping[str, Any], of: str = "") -> str:
    return json.dumps(sealed(_without(content), of))


def sealed_metrics(run: Path, row: Mapping[str, Any]) -> str:
    """A line of the metrics of a run that has a request."""
    return sealed_line(row, checksum(_without(json.loads((run / names.REQUEST).read_text()))))


def _without(content: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in content.items() if key != KEY}

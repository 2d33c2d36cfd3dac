"""The notebook of the docs runs, and shows what it showed when it was written."""

import re
from pathlib import Path

from nbformat import NotebookNode

from tests.notebook import executed, stored

MEASURED = "measured"
"""The tag of cells whose numbers differ between machines."""


def outputs(cell: NotebookNode) -> list[dict[str, str]]:
    """The outputs of a cell by kind; pictures without their content, and numbers that differ without their digits."""
    found = []
    for output in cell.get("outputs", []):
        texts = dict(output.get("data") or {output.get("name", "error"): output.get("text", "")})
        texts |= {kind: "" for kind in texts if kind.startswith("image/")}
        if MEASURED in cell.metadata.get("tags", []):
            texts = {kind: re.sub(r" *-?\d[\d.,]*", " #", text) for kind, text in texts.items()}
        found.append(texts)
    return found


def test_it_shows_what_it_showed_when_it_was_written(tmp_path: Path) -> None:
    cells = executed(tmp_path).cells
    for now, then in zip(cells, stored().cells, strict=True):
        assert outputs(now) == outputs(then), now.source
    text = "".join(output.get("text", "") for cell in cells for output in cell.get("outputs", []))
    found = re.findall(r"([\d,]+) weights, test accuracy ([\d.]+)%", text)
    assert [weights for weights, _ in found] == ["50,200", "2,510", "2,510"]
    assert all(float(accuracy) > 88 for _, accuracy in found)


def test_it_says_nothing_about_the_machine_that_executed_it() -> None:
    notebook = stored()
    assert notebook.metadata.language_info == {"name": "python"}
    assert not [cell for cell in notebook.cells if cell.metadata.keys() - {"tags"}]
    shown = [output for cell in notebook.cells for output in outputs(cell)]
    assert not re.search(r"/tmp|/home|/root|/work", str(shown))
    assert not [output for output in shown if "stderr" in output]

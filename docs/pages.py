"""Collect the pages of the site: those of docs/, the results, the examples, and what is made when it is built."""

import re
import shutil
from pathlib import Path

from nbconvert import MarkdownExporter

from docs.sliders import schedule_page

REPOSITORY = Path(__file__).parents[1]
OTHERS = ("CHANGELOG.md", "CONTRIBUTING.md", "examples", "results")
"""What pages link to outside docs/. On the site it stands beside them."""


def collect(folder: Path) -> None:
    """Fill the folder from which the site is built; what was there is removed."""
    shutil.rmtree(folder, ignore_errors=True)
    left_out = shutil.ignore_patterns("*.py", "*.ipynb", "__pycache__")
    shutil.copytree(REPOSITORY / "docs", folder, ignore=left_out)
    for page in folder.glob("*.md"):
        page.write_text(re.sub(r"(\]\(|src=\")\.\./", r"\1", page.read_text(encoding="utf-8")), encoding="utf-8")
    for name in OTHERS:
        _copy(REPOSITORY / name, folder / name)
    for notebook in sorted((REPOSITORY / "docs").glob("*.ipynb")):
        _convert(notebook, folder)
    (folder / "schedule.html").write_text(schedule_page(REPOSITORY / "results" / "mnist-fc"), encoding="utf-8")


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("seed-*", "__pycache__"))
    else:
        target.write_text(
            source.read_text(encoding="utf-8").replace("](docs/", "](").replace(".ipynb)", ".md)"), encoding="utf-8"
        )


def _convert(notebook: Path, folder: Path) -> None:
    """A notebook as a page with its outputs, as they were saved."""
    exporter = MarkdownExporter()  # type: ignore[no-untyped-call]  # nbconvert has no types
    markdown, resources = exporter.from_filename(str(notebook))
    for name, content in resources["outputs"].items():
        (folder / name).write_bytes(content)
    (folder / notebook.with_suffix(".md").name).write_text(markdown, encoding="utf-8")

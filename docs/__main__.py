"""`python -m docs`: build the site into `site/`; a broken link or a missing reference is an error."""

import subprocess
import sys
from pathlib import Path

from docs.links import broken
from docs.pages import REPOSITORY, collect


def build(root: Path) -> list[str]:
    """Build `root/site` by `root/mkdocs.yml`, and return what is broken."""
    collect(root / "build" / "docs")
    command = [sys.executable, "-m", "zensical", "build", "--clean", "--strict", "-f", str(root / "mkdocs.yml")]
    # From the repository, so that mkdocstrings finds docs.doctests.
    built = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)
    if built.returncode:
        return [built.stdout + built.stderr]
    return broken(root / "site")


if __name__ == "__main__":
    problems = build(REPOSITORY)
    sys.exit("\n".join(problems) if problems else None)

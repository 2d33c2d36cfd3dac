"""The notebook of the docs, executed: `python -m tests.notebook` writes its outputs anew."""

from copy import deepcopy
from pathlib import Path
from tempfile import TemporaryDirectory

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode

NOTEBOOK = Path(__file__).parents[1] / "docs" / "a-first-look.ipynb"


def stored() -> NotebookNode:
    notebook: NotebookNode = nbformat.read(NOTEBOOK, as_version=4)  # type: ignore[no-untyped-call]
    return notebook


def executed(folder: Path) -> NotebookNode:
    """The notebook with new outputs; its files are written into the folder."""
    notebook = stored()
    metadata = deepcopy(notebook.metadata)
    resources = {"metadata": {"path": str(folder)}}
    client = NotebookClient(notebook, timeout=300, record_timing=False, coalesce_streams=True, resources=resources)
    client.execute()
    # Without the version of Python, so that the notebook is the same wherever it was executed.
    notebook.metadata = metadata
    return notebook


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        nbformat.write(executed(Path(folder)), NOTEBOOK)  # type: ignore[no-untyped-call]

"""Figures as a notebook shows them."""

import subprocess
import sys
from pathlib import Path

from IPython.core.formatters import DisplayFormatter

from asni import figures

LAZY = """
import sys, asni
assert not {"torch", "matplotlib"} & set(sys.modules)
asni.figures.schedule(10, 0.9)
assert "matplotlib" in sys.modules and "matplotlib.pyplot" not in sys.modules
"""


def test_a_notebook_shows_a_figure_as_a_picture_without_pyplot() -> None:
    shown, sizes = DisplayFormatter().format(figures.schedule(10, 0.9))  # type: ignore[no-untyped-call]
    assert shown["image/png"].startswith(b"\x89PNG")
    assert sizes["image/png"] == {"width": 440, "height": 270}


def test_the_picture_is_the_one_that_is_saved_under_any_kind_of_path(tmp_path: Path) -> None:
    png, svg = figures.save(figures.schedule(10, 0.9), str(tmp_path / "curve"))
    assert (png, svg) == (tmp_path / "curve.png", tmp_path / "curve.svg")
    assert png.read_bytes() == figures.schedule(10, 0.9)._repr_png_()[0]


def test_figures_are_there_and_cost_nothing_before_they_are_used() -> None:
    subprocess.run([sys.executable, "-c", LAZY], check=True)

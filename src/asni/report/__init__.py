"""One HTML file that shows any set of runs: tables, figures to look closer, and how each run was made."""

from asni.report.building import page
from asni.report.collecting import collect

__all__ = ["collect", "page"]

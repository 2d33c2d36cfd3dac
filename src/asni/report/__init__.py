"""Build one HTML page about any set of runs: tables, interactive figures, and how each run was made."""

from asni.report.building import page
from asni.report.collecting import collect

__all__ = ["collect", "page"]

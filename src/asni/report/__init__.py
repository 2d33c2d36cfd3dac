"""Build one HTML page about any set of runs: tables, interactive figures, and how each run was made.

**A report shows what runs recorded and nothing else.** A run whose numbers cannot be read, or that another release
series wrote (0.1 and 0.2 are two), is skipped with a warning. A damaged file costs only what it held. NaN is shown as
NaN, and a mean that includes a NaN is not shown.

**The page is one file below 5 MB that loads nothing.** The same runs give the same bytes. Histograms are exact, never
sampled; whole networks share their bins, each as a fraction of its own surviving weights. Recipes that differ only in
sparsity share one chart of accuracy against nonzeros, which leaves out intermediate trainings.

**Names are text.** They enter the page through `textContent` alone, and its Content-Security-Policy allows one script,
by its hash. `--serve` listens on 127.0.0.1.
"""

from asni.report.building import page
from asni.report.collecting import collect

__all__ = ["collect", "page"]

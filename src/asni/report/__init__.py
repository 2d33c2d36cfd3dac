"""Build one HTML page about any set of runs: what they achieved, figures, tables, and how each run was made.

**It begins with what was achieved**: one sentence and a few numbers, which claim no more than the runs show. A
difference below the standard error is none. A run that is shortened, diverged, at chance or unfinished is marked
wherever it is drawn.

**A report shows what runs recorded and nothing else.** A run whose numbers cannot be read, or that another release
series wrote (0.1 and 0.2 are two), is skipped. A damaged file costs only what it held. NaN is shown as NaN, and a mean
that includes a NaN is not shown. What is not shown is told once for each cause; weights that were left out on purpose
are a note, not a warning.

**The page is one file below 5 MB that loads nothing.** The same runs give the same bytes. Histograms are exact, never
sampled; whole networks share their bins, each as a fraction of its own surviving weights. Recipes that differ only in
sparsity share one chart of accuracy against nonzeros, which leaves out intermediate trainings; methods of one size are
ranked instead.

**One bad run costs itself alone.** Whatever its files hold, it is named with the reason, and the other runs are shown.
Only regular files are read: JSON up to 32 MiB, weights up to 1 GiB and 5,000 layers. Links that leave the directory are
not followed. Where the page would be too large, the largest runs above 250 kB are left out.

**Names are text.** They enter the page through `textContent` alone, and its Content-Security-Policy allows one script,
by its hash. `--serve` (an extra) listens on 127.0.0.1. Its address has a token, since other users of the machine can
reach the port too. It holds 100 connections, lets others wait, and closes one that is idle for 20 seconds.
"""

from asni.report.building import page
from asni.report.collecting import collect
from asni.report.fitting import fitted
from asni.report.notices import grouped

__all__ = ["collect", "fitted", "grouped", "page"]

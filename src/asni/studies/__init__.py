"""Several runs that belong together, where they happen, and the tables made of them.

A `Study` is recipes x seeds x methods, each a run. An executor says where runs happen: in this process, in several
processes of this machine, or on a cluster. `investigation`, `reproduction` and `comparison` are three tables of it.

**A run that fails leaves the others.** Its message is reported at the end, and the same command tries it again.

**Tables hold the same rows in every format.** JSON and CSV are unrounded; Markdown, LaTeX and the terminal are for a
reader. Means stay paired: a seed counts in `reproduce` when all four variants are finished. A row that was not trained
as long as in the paper says so everywhere.

**Processes side by side** get `cores // jobs` threads each, unless `OMP_NUM_THREADS` or the recipe says otherwise. The
number of threads can change the last bits of a result, and is recorded in `environment.json`.
"""

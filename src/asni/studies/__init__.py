"""Several runs that belong together, where they are trained, and the tables made of them.

A `Study` is recipes x seeds x methods, each a run. An executor trains the runs: in this process, in several processes
on this machine, or on a cluster. `investigation`, `reproduction` and `comparison` each make a table of the results.

**A failed run does not stop the others.** Its error is reported at the end, and the same command retries it. A request
that is wrong ends the study at once. Ctrl-C or SIGTERM ends all processes. What a process prints goes to
`seed-N/METHOD.log`.

**Tables hold the same rows in every format.** JSON and CSV are unrounded; Markdown, LaTeX and the terminal are rounded.
JSON also lists the accuracy and the directory of each seed; `compare --json` prints one row per method and seed.
Means are paired: `reproduce` counts a seed only if all four variants are finished. A row that was trained for longer or
shorter than in the paper is marked in every format.

**Parallel processes** (`--jobs`) get `cores // jobs` threads each, unless `OMP_NUM_THREADS` or the recipe sets another
number; on a cluster, the scheduler decides. The number of threads can change the last bits of a result, and is recorded
in `environment.json`.
"""

"""A run on disk: the request, the metrics, the weights and the result of one training.

**A run can be killed at any time and resumed.** Each epoch ends with a checkpoint, written to a temporary file and
renamed. Data order, augmentation and dropout depend on seed and epoch only, so a checkpoint needs no random state.
`result.json` is written last: a run that has it is finished. The same machine and thread count give the same bits,
whether the run was killed or not. The last two checkpoints are kept; if the newer one is damaged, the older one is
used, and the user is told.

**Nothing damaged is believed.** Every JSON object carries a checksum, `result.json` the SHA-256 of all other files, and
a checkpoint its own. A file that does not match is named and never used. A directory without `request.json` is no run,
and one that loses files while it is trained is an error.

**Finished work is never repeated.** If a directory holds a run with a different request, the error lists the
differences. A file lock keeps a second process out; the kernel releases the lock of a killed process.

Every error names the file. Reading a finished result needs no torch.
"""

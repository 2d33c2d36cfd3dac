"""A run on disk: the request, the metrics, the weights and the result of one training.

**A run can be killed at any time and resumed.** Each epoch ends with a checkpoint, written to a temporary file and
renamed. Data order, augmentation and dropout depend on seed and epoch only, so a checkpoint needs no random state.
`result.json` is written last: a run that has it is finished. The same machine and thread count give the same bits,
whether the run was killed or not.

**Finished work is never repeated.** If a directory holds a run with a different request, the error lists the
differences. A file lock keeps a second process out; the kernel releases the lock of a killed process.

**Files are validated on reading.** Every error names the file. Reading a finished result needs no torch.
"""

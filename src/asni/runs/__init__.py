"""A run on disk: what was asked, what happened, what came out.

**A run survives anything.** Each epoch ends with a checkpoint, written to a temporary file and renamed. Data order,
augmentation and drop-out follow from seed and epoch, so a checkpoint needs no random state. `result.json` is written
last: where it is, the run is finished. The same machine and thread count give the same bits, killed or not.

**Finished work is never repeated.** A directory that holds another request is refused by the difference. A kernel lock
keeps a second process out; a killed process leaves none.

**Reading trusts nothing.** Every error names the file. Reading a finished result needs no torch.
"""

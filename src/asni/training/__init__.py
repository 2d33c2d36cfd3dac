"""One round of training: the loop, checkpoints, multiple processes, progress and evaluation.

**Training is the same on any number of processes.** The recipe's batch size is that of all processes together; the
loss is weighted so that the averaged gradient is that of the whole batch. Every process computes the masks from the
same weights, and checksums are compared at each change.

**Schedules count epochs of data.** A step that the gradient scaler skips still counts.

**Processes fail together.** An error in one process ends all of them, and process 0 reports it.
"""

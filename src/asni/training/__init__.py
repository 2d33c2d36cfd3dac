"""One round of training: the loop, its checkpoints, several processes, progress and evaluation.

**A training is the same whatever it runs on.** The recipe's batch is that of all processes together; the loss is
weighted so that the averaged gradient is that of the whole batch. Masks are chosen by every process from the same
weights and compared by checksum at each change.

**A schedule's epochs are those of the data.** A step that a gradient scaler skips is counted.

**Processes fail together.** An error of one is an error of all, and process 0 reports it.
"""

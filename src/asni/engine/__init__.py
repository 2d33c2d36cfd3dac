"""From a network or a file to a plan to a running program that multiplies by the nonzeros alone.

**The way**: a frontend (`from_torch`, `from_onnx`, a packed file) gives a `Graph` of ONNX operators; `lowering` proves
that the items of a batch do not touch each other and gives the `Steps` of one item; `planning` chooses a layout and a
kernel for each step; the native core runs the program, or NumPy runs the steps where there is no native core.

**Never silently wrong.** An operator that is not supported is refused by its name and the node's before any work. NaN
and infinity come out as in PyTorch: a zero weight times infinity is NaN.
"""

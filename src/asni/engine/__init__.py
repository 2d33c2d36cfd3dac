"""From a network or a file to a plan to a running program that multiplies by the nonzeros alone.

**The way**: one of `frontends` gives a `Graph` of ONNX operators; `lowering` proves that the items of a batch do not
touch each other and gives the `Steps` of one item; `fusing` makes them fewer; `program` times kernels and writes a
program, which the native core runs. Where there is no native core, `interpreter` runs the steps in NumPy.

**Never silently wrong.** An operator that is not supported is refused by its name and the node's before any work. NaN
and infinity come out as in PyTorch: a zero weight times infinity is NaN.
"""

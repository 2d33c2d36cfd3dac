"""Building blocks for pruning in your own training loop; they import only torch and NumPy.

**`sparsity` is the pruned fraction of the prunable weights**: the matrices of layers, unless you select others.
`total_sparsity` is the pruned fraction of all parameters, the paper's s%. `nonzeros` counts all unpruned parameters.

**Schedules** are pure functions `(epoch, epochs) -> fraction`. The sigmoid is solved for alpha so that the last
pruning, after epoch E-2, leaves exactly `round(prunable * (1 - sparsity))` weights; the last epoch trains without
pruning. A training of one epoch, or one given by its steps alone, is pruned many times on the way.

**Masks are exact.** A mask for k weights keeps exactly k. Ties go to the lower index, layer by layer in network order.
All ranks hold the same masks: a checksum is compared at each change. NaN or infinity raises an error that names the
layer.

**Sharded weights** (`DTensor`s of FSDP2 and tensor parallelism) get the masks of one process, bit for bit. No process
collects them: the threshold is found by histograms that are summed over the device mesh, so all its processes must ask
for masks and counts together.

**Pruners hook into the optimiser.** Construct one from the model and the optimiser, like a learning-rate scheduler. The
model's structure does not change: same class, same state_dict keys, deepcopy works. Weights of other optimisers are not
touched.

**Hold** masks the gradients before each step (line 3 of the algorithm). With SGD, Adam and AdamW, a zero gradient and a
zero state keep a zero weight at exactly +0.0. With any other optimiser, weights and state are masked again after the
step. They are also zeroed when the masks change, or when torch's version counters show that other code wrote the
weights. While all weights live, Hold does nothing.

**Reparameterised methods** do not wrap modules either. The layers always hold the folded weights, so that evaluation,
saving and deepcopy see the final network. Latent weights and scores are trained by an optimiser of the pruner's own, of
the class of the user's and with its settings at each step. Before a step, the hook converts the gradients by the chain
rule, steps that optimiser and folds again; the user's optimiser passes over these weights and keeps its parameter
groups. DDP has averaged the gradients by then, so that the scores agree on every rank.
"""

from asni.pruning import schedules

__all__ = ["schedules"]

"""What a training loop of your own needs to prune a network: it imports torch and NumPy alone.

**`sparsity` is the fraction of the prunable weights**, those of convolution and linear layers unless you choose others.
`total_sparsity` is the fraction of all parameters, the paper's s%. `nonzeros` counts all parameters but those pruned.

**Schedules** are pure: `(epoch, epochs) -> fraction`. The sigmoid is solved for alpha, so that the last pruning, after
epoch E-2, leaves exactly `round(prunable * (1 - sparsity))` weights; the last epoch heals. A training of one epoch is
pruned after it.

**Masks are exact.** Ask for k weights and k live. Ties go to the lower index, layer by layer in the order of the
network. Masks are the same on every rank: a checksum is compared at each change. NaN or infinity is an error that names
the layer.

**Pruners work through the optimiser.** They are made with the model and the optimiser, as a learning-rate scheduler is.
The model is never touched: same class, same state_dict keys, deepcopy works. Weights of other optimisers stay alone.

**Hold** masks the gradients before each step, as line 3 of the algorithm says. With SGD, Adam and AdamW, a gradient and
a state of 0 leave a zero weight at exactly +0.0. With any other optimiser, the weights and their state are masked
again after the step. When masks change, or torch's version counters show that somebody else wrote the weights, weights
and state are zeroed. Nothing is done while every weight lives.

**Reparameterised methods** wrap nothing either. The layers always hold the folded weights, so that testing, saving and
deepcopy see what is shipped. Before a step the hook swaps in the latent weights and turns the gradients by the chain
rule; after it, it folds again.
"""

from asni.pruning import schedules

__all__ = ["schedules"]

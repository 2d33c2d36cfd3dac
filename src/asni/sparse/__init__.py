"""Training on the nonzeros: a network with fixed masks, trained by native kernels at the price of its living weights.

**The same result.** Gradients and optimiser steps are those of masked dense training, up to rounding. What the kernels
cannot train is refused by name, and trains densely.

**The same form.** The model and the optimiser stay what they are: same class, same state_dict keys.
"""

"""Sparse networks in one round of training, and the 2L numbers they can be trained from again.

>>> import asni, torch
>>> model = torch.nn.Linear(10, 10)
>>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
>>> asni.ASNI(model, optimizer, sparsity=0.9, epochs=5, steps_per_epoch=100)
ASNI(epoch 0/5, 0 % pruned, 100 alive)
"""

import lazy_loader

__version__ = "0.1.0"

# The public names are listed in __init__.pyi, and looked up when first used: reading a recipe, or a result on disk,
# must not wait for torch.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

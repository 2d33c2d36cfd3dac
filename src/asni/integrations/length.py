"""Whether a pruner needs to know how long the training is."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from asni.errors import UsageError
from asni.pruning.pruner import Pruner


def needs_length(method: Callable[..., Pruner], options: Mapping[str, Any]) -> bool:
    """Whether the Trainer must give it `total_steps`: STR and Hold have no schedule, and a user's own number counts.

    >>> from asni import GMP, STR
    >>> needs_length(GMP, {"sparsity": 0.9}), needs_length(STR, {"decay": 0.1})
    (True, False)
    """
    if not callable(method):
        raise UsageError(f"the first argument is a pruner's class, such as asni.GMP, not {method!r}.")
    return "total_steps" in inspect.signature(method).parameters and "total_steps" not in options

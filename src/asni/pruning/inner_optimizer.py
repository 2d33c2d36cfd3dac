"""A second optimiser like the user's, for parameters that only a pruner knows."""

import inspect
from collections import defaultdict

from torch.optim import Optimizer

from asni.errors import UsageError


def without_parameters(optimizer: Optimizer) -> Optimizer:
    """Another optimiser of this class, with its attributes, but without its parameters, state and hooks."""
    _require_plain_step(optimizer)
    kind = type(optimizer)
    other = kind.__new__(kind)
    of_this_one = {"defaults", "state", "param_groups"}
    for key, value in vars(optimizer).items():
        # Schedulers and accelerate replace methods of the instance, which are bound to it.
        is_replaced_method = callable(value) and hasattr(kind, key)
        if key not in of_this_one and not key.startswith("_optimizer_") and not is_replaced_method:
            vars(other)[key] = value
    # As unpickling does: the arguments of a constructor are known only to its class.
    other.__setstate__({"defaults": optimizer.defaults, "state": defaultdict(dict), "param_groups": []})
    return other


def _require_plain_step(optimizer: Optimizer) -> None:
    kind = type(optimizer)
    for parameter in list(inspect.signature(kind.step).parameters.values())[1:]:
        named = parameter.kind not in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        if named and parameter.default is inspect.Parameter.empty:
            raise UsageError(
                f"{kind.__name__}.step needs '{parameter.name}', but methods with trained scores call step() of an "
                "optimizer of the same class: use one whose step needs no argument, such as SGD or Adam."
            )

"""Whether a call of a model is one that its kernels can run: what is asked of it, and what is around it."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.nn.modules import module as modules

_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_HOOKS_ON_ALL = (
    "_global_forward_hooks",
    "_global_forward_pre_hooks",
    "_global_backward_hooks",
    "_global_backward_pre_hooks",
)


def images_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor | None:
    """The batch, if that is all that the model is called with, and no gradient of it is asked for."""
    if len(args) != 1 or kwargs or type(args[0]) is not Tensor:
        return None
    (images,) = args
    is_plain = images.dtype is torch.float32 and images.device.type == "cpu" and images.layout is torch.strided
    return images if is_plain and images.numel() and not images.requires_grad else None


def is_plain_training() -> bool:
    """Whether torch records a backward pass and nothing else: nobody traces, compiles, transforms or counts."""
    return (
        torch.is_grad_enabled()
        and not torch.is_inference_mode_enabled()
        and not torch.compiler.is_compiling()
        and not torch._C._get_tracing_state()
        and not torch._C._are_functorch_transforms_active()
        and not torch._C._len_torch_dispatch_stack()
        and not torch.is_autocast_enabled("cpu")
        and forward_ad._current_level < 0
        and torch._C._autograd._top_saved_tensors_default_hooks(True) is None
        and not any(getattr(modules, name) for name in _HOOKS_ON_ALL)
    )


def hooked(model: nn.Module) -> str | None:
    """The name of a module with a hook that must see its values; None if there is none."""
    return next((name or type(model).__name__ for name, each in model.named_modules() if _has_hooks(each)), None)


def form_of(model: nn.Module) -> tuple[Any, ...] | None:
    """What the steps of a model follow from, as far as it changes: its modules, their attributes, and their memory.

    None while it has tensors of other kinds, as in `torch.func.functional_call` or when it is sharded.
    """
    found: list[Any] = []
    for module in model.modules():
        found += [id(module), type(module), _has_hooks(module)]
        found += filter(_is_plain, vars(module).values())
        for kind, tensors in ((nn.Parameter, module._parameters), (Tensor, module._buffers)):
            for tensor in tensors.values():
                if tensor is not None and type(tensor) is not kind:
                    return None
                if tensor is not None:
                    found += [id(tensor), tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.requires_grad]
    return tuple(found)


def _is_plain(value: object) -> bool:
    """Whether a module may choose what its forward does by an attribute like this."""
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, (bool, int, float, str))


def _has_hooks(module: nn.Module) -> bool:
    return any(getattr(module, kind) for kind in _HOOKS)

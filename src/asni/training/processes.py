"""Several processes that train one network: how they start, which one reports, and how they fail together.

They are started by torchrun, or by Lightning Fabric from the first one. Heavy imports are deferred, because the command
line needs the rank before it knows whether anything will be trained.
"""

import atexit
import gc
import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from typing import TYPE_CHECKING, Literal, TypeVar

from asni.display import on_stderr
from asni.errors import AsniError, ElsewhereError, UsageError

if TYPE_CHECKING:
    from lightning_fabric import Fabric

Value = TypeVar("Value")

PRECISIONS: dict[str, Literal["32-true", "bf16-mixed", "16-mixed"]] = {
    "fp32": "32-true",
    "bf16": "bf16-mixed",
    "fp16": "16-mixed",
}


_LAUNCHER = "ASNI_LAUNCHER"
"""The variable by which the first process tells the others its number."""


def rank() -> int:
    """Which process of the training this is; process 0 prints and writes for all."""
    return int(os.environ.get("RANK" if _by_torchrun() else "LOCAL_RANK", "0"))


def make_fabric(device: str = "auto", devices: int = 1, precision: str = "fp32") -> "Fabric":
    """Launch Lightning Fabric on a device, at a precision, in `devices` processes or in those of torchrun."""
    with on_stderr().status("Loading torch"):
        import torch
        from lightning_fabric import Fabric
        from lightning_fabric.plugins.environments.lightning import LightningEnvironment
        from lightning_fabric.plugins.environments.torchelastic import TorchElasticEnvironment
        from lightning_fabric.strategies.ddp import DDPStrategy
        from lightning_fabric.utilities.exceptions import MisconfigurationException

    if precision == "fp16" and not (device in ("auto", "cuda") and torch.cuda.is_available()):
        raise UsageError("--precision fp16 needs a CUDA device for its gradient scaler. Use --precision bf16 or fp32.")
    _quieten()
    torch.backends.cudnn.deterministic = True
    each, nodes = _layout(devices)
    _require_devices(device, each)
    # As torchrun does: the data loaders must know how many processes share this machine.
    os.environ["LOCAL_WORLD_SIZE"] = str(each)
    try:
        fabric = Fabric(
            accelerator=device,
            devices=each,
            num_nodes=nodes,
            precision=PRECISIONS[precision],
            strategy=DDPStrategy(gradient_as_bucket_view=True) if each * nodes > 1 else "auto",
            # Explicit, because Fabric assumes that srun started any process inside a Slurm allocation.
            plugins=[TorchElasticEnvironment() if _by_torchrun() else LightningEnvironment()],
        )
    except (MisconfigurationException, RuntimeError) as error:
        raise UsageError(f"cannot train on {each} x '{device}': {error}") from error
    _end_with_launcher()
    fabric.launch()
    if fabric.world_size > 1:
        # Fabric does this for NCCL only, but gloo's threads can also abort an interpreter that ends before them.
        atexit.register(_leave_group)
    return fabric


def gathered(fabric: "Fabric", value: Value) -> list[Value]:
    """What every process has, in their order; all of them must call it."""
    from torch.distributed import all_gather_object

    if fabric.world_size == 1:
        return [value]
    values = [value] * fabric.world_size
    all_gather_object(values, value)
    return values


@contextmanager
def fail_together(fabric: "Fabric") -> Iterator[None]:
    """All processes leave this block in the same way: an error in one is raised in all, and process 0 reports it.

    Code inside the block must not wait for other processes.
    """
    error: AsniError | None = None
    try:
        yield
    except AsniError as raised:
        error = raised
    errors = gathered(fabric, error)
    if error is not None and fabric.is_global_zero:
        raise error
    for process, other in enumerate(errors):
        if other is not None:
            raise type(other)(f"process {process}: {other}") if fabric.is_global_zero else ElsewhereError(str(other))


def is_lost_peer(error: RuntimeError) -> bool:
    """Whether communication failed because another process of the training has ended."""
    from torch.distributed import DistError

    return isinstance(error, DistError) or "/gloo/" in str(error)


def _end_with_launcher() -> None:
    """End a process that the first one started when that one is killed: else it could wait for it for ever."""
    if _by_torchrun():
        return
    if "LOCAL_RANK" not in os.environ:
        os.environ[_LAUNCHER] = str(os.getpid())
        return

    def watch() -> None:
        while str(os.getppid()) == os.environ.get(_LAUNCHER):
            time.sleep(0.5)
        os._exit(1)

    Thread(target=watch, daemon=True).start()


def _leave_group() -> None:
    """Leave the group of all processes, and wait for its threads: one may still be about to release a tensor."""
    from torch.distributed import destroy_process_group, group, is_initialized

    if not is_initialized():
        return
    world = group.WORLD
    destroy_process_group()
    # A network that was wrapped for several processes holds the group too. It must not be the last to do so: only the
    # group's own Python object lets its threads have the interpreter while it waits for them.
    gc.collect()
    del world


def _require_devices(device: str, each: int) -> None:
    """Raise an error if this machine has fewer devices of the kind that Fabric would choose."""
    import torch

    found = {"cuda": torch.cuda.device_count(), "mps": int(torch.backends.mps.is_available())}
    kind = next((name for name, count in reversed(found.items()) if count), "cpu") if device == "auto" else device
    names = {"cuda": "CUDA", "mps": "MPS"}
    if kind not in found or found[kind] >= each:
        return
    if not found[kind]:
        raise UsageError(f"no {names[kind]} device was found on this machine. Use --device cpu, or leave out --device.")
    raise UsageError(
        f"{each} {names[kind]} devices were asked for, but this machine has {found[kind]}. "
        f"Use --devices {found[kind]}, or --device cpu."
    )


def _by_torchrun() -> bool:
    return "TORCHELASTIC_RUN_ID" in os.environ


def _layout(devices: int) -> tuple[int, int]:
    """Processes on each machine, and machines."""
    if not _by_torchrun():
        return devices, 1
    each, world = int(os.environ["LOCAL_WORLD_SIZE"]), int(os.environ["WORLD_SIZE"])
    if devices not in (1, each):
        raise UsageError(
            f"torchrun started {each} processes on this machine, which contradicts --devices {devices}. "
            "Leave out --devices."
        )
    if world % each:
        raise UsageError(
            f"torchrun started {world} processes, {each} of them on this machine: every machine needs the same number."
        )
    return each, world // each


def _quieten() -> None:
    """Silence Fabric's messages about its start, but not those about why it ends processes."""
    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)
    logging.getLogger("lightning_fabric.strategies.launchers").setLevel(logging.INFO)

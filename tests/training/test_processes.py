"""Two processes of one training: a different mask, an error or a refusal in one of them ends both."""

import os
import re
import socket
from pathlib import Path

import pytest
import torch
from lightning_fabric import Fabric
from rich.console import Console
from torch import nn
from torch.multiprocessing.spawn import spawn

from asni import recipes
from asni.errors import AsniError, ElsewhereError, UsageError
from asni.pruning.hold import Hold
from asni.runs.run import Experiment
from asni.training.processes import fail_together, make_fabric
from asni.training.progress import Progress
from asni.training.trainer import Trainer


def test_in_two_processes() -> None:
    """One start for all of them, since it takes longer than they do."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    spawn(_one_of_two, args=(port,), nprocs=2)


def _one_of_two(rank: int, port: int) -> None:
    torch.set_num_threads(1)
    world = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 2, "LOCAL_WORLD_SIZE": 2, "GROUP_RANK": 0}
    torchrun = {"TORCHELASTIC_RUN_ID": "test", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, **world}
    os.environ.update({name: str(value) for name, value in torchrun.items()})
    fabric = make_fabric("cpu")
    assert (fabric.global_rank, fabric.world_size) == (rank, 2)
    different_masks_are_refused_by_both(fabric)
    an_error_of_one_is_reported_by_process_0(fabric)
    a_batch_without_a_share_for_everyone_is_refused(fabric)


def different_masks_are_refused_by_both(fabric: Fabric) -> None:
    model = nn.Linear(4, 1)
    hold = Hold(model, torch.optim.SGD(model.parameters(), lr=0.1), {"weight": torch.ones(1, 4, dtype=torch.bool)})
    with pytest.raises(AsniError, match="different masks"):
        hold.masks = {"weight": torch.arange(4).view(1, 4) != fabric.global_rank}
    assert hold.masks["weight"].all(), "a refused mask must not be applied"


def an_error_of_one_is_reported_by_process_0(fabric: Fabric) -> None:
    here = AsniError if fabric.is_global_zero else ElsewhereError
    with pytest.raises(here, match="broken") as raised:
        fail_in_process_1(fabric)
    assert type(raised.value) is here


def fail_in_process_1(fabric: Fabric) -> None:
    with fail_together(fabric):
        if not fabric.is_global_zero:
            raise AsniError("broken")


def a_batch_without_a_share_for_everyone_is_refused(fabric: Fabric) -> None:
    experiment = Experiment(recipes.load("digits-fc").override(batch_size=1), 0, "fp32", Path("runs"))
    with pytest.raises(UsageError, match=r"batch_size = 1\b.*2 processes"):
        Trainer(experiment, fabric, Progress(Console(quiet=True)))


@pytest.mark.parametrize(
    ("device", "devices", "said"),
    [
        ("cuda", 1, "no CUDA device was found on this machine. Use --device cpu, or leave out --device."),
        ("mps", 1, "no MPS device was found on this machine. Use --device cpu, or leave out --device."),
        ("cuda", 4, "no CUDA device was found"),
    ],
)
def test_a_device_that_is_not_there_is_refused_in_our_words(
    monkeypatch: pytest.MonkeyPatch, device: str, devices: int, said: str
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(UsageError, match=re.escape(said)):
        make_fabric(device, devices)


@pytest.mark.parametrize("device", ["auto", "cuda"])
def test_more_devices_than_there_are_are_refused_with_their_number(
    monkeypatch: pytest.MonkeyPatch, device: str
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(UsageError, match=r"4 CUDA devices .* this machine has 2\. Use --devices 2, or --device cpu"):
        make_fabric(device, 4)


def test_devices_that_torchrun_did_not_start_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"TORCHELASTIC_RUN_ID": "1", "LOCAL_WORLD_SIZE": "2", "WORLD_SIZE": "4"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match=r"torchrun .*2 processes.*--devices 3"):
        make_fabric("cpu", devices=3)

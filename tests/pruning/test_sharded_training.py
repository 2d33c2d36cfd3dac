"""Pruners train networks that FSDP2 or tensor parallelism has sharded, and resume from distributed checkpoints."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict, set_optimizer_state_dict
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.functional import mse_loss

from asni.errors import AsniError
from asni.methods.asni import ASNI
from asni.methods.gmp import GMP
from asni.methods.magnitude import Magnitude
from asni.methods.rigl import SET, RigL
from asni.methods.soft_threshold import STR
from asni.pruning.hold import Hold
from asni.pruning.masks import keep_largest
from asni.pruning.pruner import Pruner
from tests.pruning.processes import failures

STEPS = 12
PRUNERS: dict[str, Callable[..., Pruner]] = {
    method.__name__: partial(method, sparsity=0.75, total_steps=STEPS) for method in (ASNI, GMP, Magnitude, RigL, SET)
}
OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "sgd": partial(torch.optim.SGD, lr=0.125, momentum=0.5, weight_decay=0.125),
    "adamw": partial(torch.optim.AdamW, lr=0.01),
    "rmsprop": partial(torch.optim.RMSprop, lr=0.01),
}


def network() -> nn.Sequential:
    torch.manual_seed(0)
    # Seven rows on two or three processes: uneven shards.
    return nn.Sequential(nn.Linear(6, 7), nn.ReLU(), nn.Linear(7, 10), nn.ReLU(), nn.Linear(10, 2))


def sharded() -> nn.Module:
    model = network()
    for layer in (model[0], model[2], model):
        fully_shard(layer)
    return model


def train(model: nn.Module, optimizer: torch.optim.Optimizer, steps: range) -> None:
    """The same batch on every process, so that their mean gradient is that of one process."""
    for step in steps:
        generator = torch.Generator().manual_seed(step)
        images, targets = (torch.randn(8, size, generator=generator) for size in (6, 2))
        optimizer.zero_grad()
        mse_loss(model(images), targets).backward()
        optimizer.step()


def whole(tensor: Tensor) -> Tensor:
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def values(model: nn.Module) -> dict[str, Tensor]:
    return {name: whole(parameter.detach()) for name, parameter in model.named_parameters()}


def masks_of(pruner: Pruner) -> dict[str, Tensor]:
    return {name: whole(mask) for name, mask in pruner.masks.items()}


def assert_zero_where_pruned(pruner: Pruner) -> None:
    masks = masks_of(pruner)
    for name, weight in pruner.weights.items():
        for value in [weight, *pruner.optimizer.state[weight].values()]:
            if isinstance(value, Tensor) and value.shape == weight.shape:
                assert not whole(value.detach())[~masks[name]].any(), name


def every_method_ends_at_its_target_with_zeros_that_stay() -> None:
    pairs = [(make_pruner, OPTIMIZERS["sgd"]) for make_pruner in PRUNERS.values()]
    pairs += [(PRUNERS["ASNI"], OPTIMIZERS[name]) for name in ("adamw", "rmsprop")]
    for make_pruner, make_optimizer in pairs:
        model = sharded()
        optimizer = make_optimizer(model.parameters())
        pruner = make_pruner(model, optimizer)
        for steps in (range(8), range(8, 9), range(9, STEPS)):
            train(model, optimizer, steps)
            assert_zero_where_pruned(pruner)
        assert sum(int(mask.sum()) for mask in masks_of(pruner).values()) == pruner.alive == pruner.target == 33


def two_processes_train_to_the_bits_of_one() -> None:
    for make_pruner in PRUNERS.values():
        alone, together = network(), sharded()
        for model in (alone, together):
            optimizer = OPTIMIZERS["sgd"](model.parameters())
            make_pruner(model, optimizer)
            train(model, optimizer, range(STEPS))
        for name, value in values(together).items():
            assert torch.equal(value, values(alone)[name]), name


def a_pruning_keeps_the_largest_weights_of_the_whole_network() -> None:
    model = sharded()
    pruner = PRUNERS["GMP"](model, OPTIMIZERS["sgd"](model.parameters()))
    before = {name: whole(weight.detach()) for name, weight in pruner.weights.items()}
    pruner.finish()
    expected = keep_largest(before, 33)
    assert all(torch.equal(mask, expected[name]) for name, mask in masks_of(pruner).items())


def a_mask_of_a_file_is_held_by_every_shard() -> None:
    masks = keep_largest({name: value for name, value in values(network()).items() if "weight" in name}, 33)
    model = sharded()
    optimizer = OPTIMIZERS["adamw"](model.parameters())
    hold = Hold(model, optimizer, masks)
    train(model, optimizer, range(3))
    assert_zero_where_pruned(hold)
    assert all(torch.equal(mask, masks[name]) for name, mask in masks_of(hold).items())
    copied = network()
    hold.apply_to(copied)
    assert all(not value[~masks[name]].any() for name, value in values(copied).items() if name in masks)


def a_distributed_checkpoint_resumes_to_the_same_bits(folder: Path) -> None:
    for name in ("ASNI", "RigL"):
        make_pruner = PRUNERS[name]
        model, optimizer, pruner = started(make_pruner)
        train(model, optimizer, range(7))
        state = state_of(model, optimizer, pruner)
        save(state, checkpoint_id=folder / name)
        train(model, optimizer, range(7, STEPS))

        other, other_optimizer, other_pruner = started(make_pruner)
        state = state_of(other, other_optimizer, other_pruner)
        load(state, checkpoint_id=folder / name)
        other_pruner.load_state_dict(state["pruner"])
        other.load_state_dict(state["model"])
        set_optimizer_state_dict(other, other_optimizer, state["optimizer"])
        assert other_pruner.steps == 7
        train(other, other_optimizer, range(7, STEPS))
        assert all(torch.equal(value, values(model)[key]) for key, value in values(other).items()), name


def started(make_pruner: Callable[..., Pruner]) -> tuple[nn.Module, torch.optim.Optimizer, Pruner]:
    model = sharded()
    optimizer = OPTIMIZERS["sgd"](model.parameters())
    return model, optimizer, make_pruner(model, optimizer)


def state_of(model: nn.Module, optimizer: torch.optim.Optimizer, pruner: Pruner) -> dict[str, Any]:
    return {
        "model": model.state_dict(),
        "optimizer": get_optimizer_state_dict(model, optimizer),
        "pruner": pruner.state_dict(),
    }


def tensor_parallel_layers_are_pruned() -> None:
    model = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 2))
    mesh = init_device_mesh("cpu", (torch.distributed.get_world_size(),))
    parallelize_module(model, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    optimizer = OPTIMIZERS["sgd"](model.parameters())
    pruner = PRUNERS["ASNI"](model, optimizer)
    train(model, optimizer, range(STEPS))
    assert pruner.alive == 24
    assert_zero_where_pruned(pruner)


def a_pruner_made_before_sharding_is_told() -> None:
    model = network()
    optimizer = OPTIMIZERS["sgd"](model.parameters())
    PRUNERS["ASNI"](model, optimizer)
    fully_shard(model)
    optimizer.param_groups[0]["params"] = list(model.parameters())
    with pytest.raises(AsniError, match=r"no longer trains '0\.weight'.*Create the pruner after"):
        train(model, optimizer, range(1))


def latent_weights_of_shards_are_refused() -> None:
    model = sharded()
    with pytest.raises(AsniError, match="STR cannot train weights that FSDP2"):
        STR(model, OPTIMIZERS["sgd"](model.parameters()), decay=0.1)


def one_process_may_look_at_a_pruner() -> None:
    model, optimizer, pruner = started(PRUNERS["ASNI"])
    if torch.distributed.get_rank() == 0:
        assert repr(pruner) == "ASNI(step 0/12, 0 % pruned, 132 alive)"
        assert "0 % pruned" in pruner._repr_html_()
        assert pruner.sparsity == 0.0
    train(model, optimizer, range(STEPS))
    if torch.distributed.get_rank() == 0:
        assert repr(pruner) == "ASNI(step 12/12, 75 % pruned, 33 alive)"


EVERYWHERE = [
    every_method_ends_at_its_target_with_zeros_that_stay,
    a_pruning_keeps_the_largest_weights_of_the_whole_network,
    a_mask_of_a_file_is_held_by_every_shard,
    tensor_parallel_layers_are_pruned,
    a_pruner_made_before_sharding_is_told,
    latent_weights_of_shards_are_refused,
    one_process_may_look_at_a_pruner,
]
ONLY_IN = {2: [two_processes_train_to_the_bits_of_one], 3: []}


@pytest.mark.parametrize("processes", [2, 3])
def test_in_several_processes(tmp_path: Path, processes: int) -> None:
    checks: dict[str, Callable[[], None]] = {check.__name__: check for check in (*EVERYWHERE, *ONLY_IN[processes])}
    checks["checkpoint"] = partial(a_distributed_checkpoint_resumes_to_the_same_bits, tmp_path)
    found = failures(checks, processes, tmp_path)
    assert not any(found.values()), "\n".join(f"{name}:\n{text[0]}" for name, text in found.items() if text)

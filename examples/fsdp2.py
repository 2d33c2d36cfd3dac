"""A small transformer whose weights are spread over two processes (FSDP2): dense, then pruned by ASNI-I.

The masks are those that a single process would choose. The sparse training saves a distributed checkpoint in its
middle; at the end it is resumed from there, and reaches the same weights.

    torchrun --standalone --nproc-per-node 2 examples/fsdp2.py

Seed 0, torch 2.13.0, Python 3.11.7, 20 seconds on 2 CPU cores:

    dense: accuracy 95.6%, 71,168 nonzero prunable weights, 242,265 bytes packed, 292,648 unpacked
    sparse: accuracy 92.9%, 14,234 nonzero prunable weights, 58,119 bytes packed, 292,648 unpacked
    resumed in the middle: the same weights
"""

import gc
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import digits
import torch
from torch import Tensor, distributed, nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    set_optimizer_state_dict,
)
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.functional import cross_entropy
from torch.optim import AdamW
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import asni

EPOCHS = 12
MIDDLE = 6
SPARSITY = 0.8


def main() -> None:
    distributed.init_process_group("gloo")
    compare_trainings()
    # Sharded models are cycles that hold the process group, whose threads would abort an interpreter that is ending.
    gc.collect()
    distributed.destroy_process_group()


def compare_trainings() -> None:
    train, test = digits.load()
    with TemporaryDirectory() as own_folder:
        folder = Path(of_first_process(own_folder))
        trainings = {
            "dense": train_dense(train),
            "sparse": train_sparse(train, folder),
            "resumed": train_sparse(train, folder, resume=True),
        }
        weights = {name: gathered(model) for name, model in trainings.items()}
        if distributed.get_rank() == 0:
            report("dense", weights["dense"], test, folder)
            report("sparse", weights["sparse"], test, folder)
            same = all(torch.equal(weight, weights["resumed"][name]) for name, weight in weights["sparse"].items())
            print(f"resumed in the middle: {'the same' if same else 'other'} weights")


def train_dense(train: TensorDataset) -> nn.Module:
    model, optimizer = started()
    for epoch in range(EPOCHS):
        run_epoch(epoch, model, optimizer, train)
    return model


def train_sparse(train: TensorDataset, folder: Path, resume: bool = False) -> nn.Module:
    model, optimizer = started()
    # After fully_shard, which replaces the parameters.
    pruner = asni.ASNI(model, optimizer, sparsity=SPARSITY, epochs=EPOCHS, steps_per_epoch=len(share_of(train)))
    if resume:
        read_checkpoint(folder / "middle", model, optimizer, pruner)
    for epoch in range(MIDDLE if resume else 0, EPOCHS):
        if epoch == MIDDLE and not resume:
            save(states(model, optimizer, pruner), checkpoint_id=folder / "middle")
        run_epoch(epoch, model, optimizer, train)
    return model


def started() -> tuple[nn.Module, AdamW]:
    """A model whose blocks are spread over all processes, the same in every training, and its optimiser."""
    torch.manual_seed(0)
    model = Classifier()
    mesh = init_device_mesh("cpu", (distributed.get_world_size(),))
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model, AdamW(model.parameters(), lr=2e-3)


class Classifier(nn.Module):
    """Reads the eight rows of a digit as a sequence."""

    def __init__(self, width: int = 64):
        super().__init__()
        self.rows = nn.Linear(8, width)
        self.positions = nn.Parameter(0.02 * torch.randn(8, width))
        self.blocks = nn.Sequential(
            *(nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, batch_first=True) for _ in range(2))
        )
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(8 * width, 10))

    def forward(self, images: Tensor) -> Tensor:
        sequence = self.rows(images.squeeze(1)) + self.positions
        classes: Tensor = self.head(self.blocks(sequence))
        return classes


def share_of(train: TensorDataset, epoch: int = 0) -> DataLoader[tuple[Tensor, ...]]:
    """This process's batches."""
    sampler: DistributedSampler[tuple[Tensor, ...]] = DistributedSampler(train)
    sampler.set_epoch(epoch)
    return DataLoader(train, batch_size=50, sampler=sampler)


def run_epoch(epoch: int, model: nn.Module, optimizer: AdamW, train: TensorDataset) -> None:
    for images, labels in share_of(train, epoch):
        optimizer.zero_grad()
        cross_entropy(model(images), labels).backward()
        optimizer.step()


def states(model: nn.Module, optimizer: AdamW, pruner: asni.Pruner) -> dict[str, Any]:
    return {
        "model": get_model_state_dict(model),
        "optimizer": get_optimizer_state_dict(model, optimizer),
        "pruner": pruner.state_dict(),
    }


def read_checkpoint(path: Path, model: nn.Module, optimizer: AdamW, pruner: asni.Pruner) -> None:
    saved = states(model, optimizer, pruner)
    load(saved, checkpoint_id=path)
    model.load_state_dict(saved["model"])
    set_optimizer_state_dict(model, optimizer, saved["optimizer"])
    pruner.load_state_dict(saved["pruner"])


def gathered(model: nn.Module) -> dict[str, Any]:
    """The whole weights, in process 0 alone."""
    return get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, cpu_offload=True))


def report(name: str, weights: dict[str, Any], test: TensorDataset, folder: Path) -> None:
    model = Classifier()
    model.load_state_dict(weights)
    nonzeros = sum(int(weight.count_nonzero()) for weight in asni.prunable(model).values())
    packed = asni.pack(model, folder / f"{name}.asni")
    print(
        f"{name}: accuracy {digits.accuracy(model, test):.1%}, {nonzeros:,} nonzero prunable weights, "
        f"{packed.bytes:,} bytes packed, {packed.dense_bytes:,} unpacked"
    )


def of_first_process(folder: str) -> str:
    folders = [folder]
    distributed.broadcast_object_list(folders)
    return folders[0]


if __name__ == "__main__":
    main()

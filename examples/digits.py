"""The 8x8 digits that come with the package, for the other examples: no download."""

import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from asni import datasets


def load() -> tuple[TensorDataset, TensorDataset]:
    """1,500 pictures to train on and 297 to test on, with their labels."""
    digits = datasets.load("digits")
    everything = torch.arange(digits.info.train)
    train = next(digits.train_batches(everything, len(everything), augment=None, seed=0, epoch=0))
    return TensorDataset(*train), TensorDataset(*next(digits.test_batches(digits.info.test)))


@torch.no_grad()
def accuracy(model: nn.Module, test: TensorDataset) -> float:
    images, labels = test.tensors
    model.eval()
    right = correct(model(images), labels)
    model.train()
    return right


def correct(outputs: Tensor, labels: Tensor) -> float:
    return float((outputs.argmax(1) == labels).float().mean())

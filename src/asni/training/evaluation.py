"""The test accuracy of a network."""

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn

from asni.datasets import Dataset

TEST_BATCH = 1000


Logits = Callable[[Tensor], Tensor]


@torch.no_grad()
def count_correct(logits: Logits, batches: Iterable[tuple[Tensor, Tensor]], device: torch.device) -> Tensor:
    """The number of images that are classified correctly."""
    correct = torch.zeros((), dtype=torch.int64, device=device)
    for images, labels in batches:
        correct += (logits(images).argmax(1) == labels.to(device)).sum()
    return correct


def logits_of(model: nn.Module, device: torch.device) -> Logits:
    """The network in evaluation mode, on the device that it is on."""
    model.eval()
    return lambda images: model(images.to(device, memory_format=torch.channels_last))


def accuracy(model: nn.Module, dataset: Dataset) -> float:
    """The percentage of test images that are classified correctly."""
    device = torch.device("cpu")
    correct = count_correct(logits_of(model, device), dataset.test_batches(TEST_BATCH), device)
    return 100 * int(correct) / dataset.info.test

"""The test accuracy of a network."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from asni.datasets import Dataset

TEST_BATCH = 1000


@torch.no_grad()
def count_correct(model: nn.Module, batches: Iterable[tuple[Tensor, Tensor]], device: torch.device) -> Tensor:
    """The number of images that are classified correctly."""
    model.eval()
    correct = torch.zeros((), dtype=torch.int64, device=device)
    for images, labels in batches:
        images = images.to(device, memory_format=torch.channels_last)
        correct += (model(images).argmax(1) == labels.to(device)).sum()
    return correct


def accuracy(model: nn.Module, dataset: Dataset) -> float:
    """The percentage of test images that are classified correctly."""
    correct = count_correct(model, dataset.test_batches(TEST_BATCH), torch.device("cpu"))
    return 100 * int(correct) / dataset.info.test

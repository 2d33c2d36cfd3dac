"""A ResNet in a plain loop: trained dense, then made sparse by ASNI-I while it trains, with one more line.

    python examples/resnet.py

Seed 0, torch 2.13.0, Python 3.11.7, 10 seconds on 2 CPU cores:

    dense: accuracy 95.3%, 77,072 nonzero weights, 260,565 bytes packed, 313,328 unpacked
    sparse: accuracy 95.3%, 7,707 nonzero weights, 32,497 bytes packed, 313,328 unpacked
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import digits
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim.lr_scheduler import OneCycleLR
from torch.utils.data import DataLoader, TensorDataset

import asni

EPOCHS = 12
SPARSITY = 0.9


def main() -> None:
    torch.set_num_threads(1)  # the fastest for a network this small
    train, test = digits.load()
    dense = fit(train, sparse=False)
    sparse = fit(train, sparse=True)
    print(asni.summary(sparse, input_size=(1, 1, 8, 8)))
    report("dense", dense, test)
    report("sparse", sparse, test)


def fit(train: TensorDataset, sparse: bool) -> nn.Module:
    torch.manual_seed(0)
    loader = DataLoader(train, batch_size=50, shuffle=True)
    model = resnet()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True, weight_decay=5e-4)
    rate = OneCycleLR(optimizer, max_lr=0.1, epochs=EPOCHS, steps_per_epoch=len(loader))
    if sparse:
        asni.ASNI(model, optimizer, sparsity=SPARSITY, epochs=EPOCHS, steps_per_epoch=len(loader))
    for _ in range(EPOCHS):
        for images, labels in loader:
            loss = cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            rate.step()
    return model


def resnet(widths: tuple[int, ...] = (16, 32, 64)) -> nn.Module:
    """One residual block of each width; every block but the first halves the picture."""
    stem = [nn.Conv2d(1, widths[0], 3, padding=1, bias=False), nn.BatchNorm2d(widths[0]), nn.ReLU()]
    blocks = [
        Block(before, width, stride=1 if before == width else 2)
        for before, width in zip((widths[0], *widths), widths, strict=False)
    ]
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(widths[-1], 10))


class Block(nn.Module):
    def __init__(self, before: int, width: int, stride: int):
        super().__init__()
        self.branch = nn.Sequential(
            nn.Conv2d(before, width, 3, stride, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1, bias=False),
            nn.BatchNorm2d(width),
        )
        self.shortcut: nn.Module = nn.Identity()
        if before != width:
            self.shortcut = nn.Sequential(nn.Conv2d(before, width, 1, stride, bias=False), nn.BatchNorm2d(width))

    def forward(self, inputs: Tensor) -> Tensor:
        return torch.relu(self.branch(inputs) + self.shortcut(inputs))


def report(name: str, model: nn.Module, test: TensorDataset) -> None:
    with TemporaryDirectory() as folder:
        packed = asni.pack(model, Path(folder) / "net.asni")
    print(
        f"{name}: accuracy {digits.accuracy(model, test):.1%}, {packed.nonzeros:,} nonzero weights, "
        f"{packed.bytes:,} bytes packed, {packed.dense_bytes:,} unpacked"
    )


if __name__ == "__main__":
    main()

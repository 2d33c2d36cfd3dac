"""ASNI in your own training loop: one line makes the network sparse, one more gives its amenable initialisation.

Run it with `python examples/own_loop.py`; it trains a small network on the digits that come with the package.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

import asni
from asni import datasets

EPOCHS = 20


def main() -> None:
    train, test = digits()
    torch.manual_seed(0)
    loader = DataLoader(TensorDataset(*train), batch_size=50, shuffle=True)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 300), nn.ReLU(), nn.Linear(300, 10))

    optimizer = torch.optim.Adam(model.parameters(), lr=1.2e-3)
    asni.ASNI(model, optimizer, sparsity=0.95, epochs=EPOCHS, steps_per_epoch=len(loader))  # ASNI-I
    fit(model, optimizer, loader)
    report("ASNI-I", model, test)

    numbers = asni.amenable(model)  # ASNI-II: two numbers per layer
    print(f"amenable initialisation: {len(numbers.c_plus) + len(numbers.c_minus)} numbers")
    optimizer = torch.optim.Adam(model.parameters(), lr=1.2e-3)
    asni.Hold(model, optimizer)  # keeps pruned weights at zero
    fit(model, optimizer, loader)
    report("ASNI-II", model, test)


def fit(model: nn.Module, optimizer: torch.optim.Optimizer, loader: DataLoader[tuple[Tensor, ...]]) -> None:
    for _ in range(EPOCHS):
        for images, labels in loader:
            loss = cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def report(name: str, model: nn.Module, test: tuple[Tensor, Tensor]) -> None:
    alive = sum(int(weight.count_nonzero()) for weight in asni.prunable(model).values())
    accuracy = (model(test[0]).argmax(1) == test[1]).float().mean()
    print(f"{name}: {alive:,} weights, test accuracy {accuracy:.1%}")


def digits() -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    dataset = datasets.load("digits")
    everything = torch.arange(dataset.info.train)
    train = next(dataset.train_batches(everything, len(everything), augment=None, seed=0, epoch=0))
    return train, next(dataset.test_batches(dataset.info.test))


if __name__ == "__main__":
    main()

"""Gradual magnitude pruning in Lightning: the module stays as it is, and the Trainer gets one callback.

    pip install 'asni[lightning]'
    python examples/lightning_callback.py

Seed 0, torch 2.13.0, pytorch-lightning 2.6.6, Python 3.11.7, 7 seconds on 2 CPU cores:

    dense: accuracy 92.9%, 50,200 nonzero weights, 167,722 bytes packed, 202,440 unpacked
    sparse: accuracy 91.6%, 2,510 nonzero weights, 11,162 bytes packed, 202,440 unpacked
"""

import logging
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory

import digits
import torch
from pytorch_lightning import LightningModule, Trainer, seed_everything
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader

import asni
from asni.integrations.lightning import SparsityCallback

EPOCHS = 20
SPARSITY = 0.95


def main() -> None:
    torch.set_num_threads(1)  # the fastest for a network this small
    logging.getLogger("pytorch_lightning").setLevel("WARNING")
    warnings.filterwarnings("ignore", ".*does not have many workers")  # data in memory needs none
    warnings.filterwarnings("ignore", ".*LeafSpec")  # Lightning 2.6 with torch 2.13
    run("dense")
    run("sparse", SparsityCallback(asni.GMP, sparsity=SPARSITY))


def run(name: str, *callbacks: SparsityCallback) -> None:
    seed_everything(0, verbose=False)
    train, test = digits.load()
    classifier = Classifier()
    trainer = Trainer(
        max_epochs=EPOCHS,
        callbacks=list(callbacks),
        gradient_clip_val=1.0,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(classifier, DataLoader(train, batch_size=50, shuffle=True))
    (measured,) = trainer.test(classifier, DataLoader(test, batch_size=len(test)), verbose=False)
    with TemporaryDirectory() as folder:
        packed = asni.pack(classifier.model, Path(folder) / "net.asni")
    print(
        f"{name}: accuracy {measured['accuracy']:.1%}, {packed.nonzeros:,} nonzero weights, "
        f"{packed.bytes:,} bytes packed, {packed.dense_bytes:,} unpacked"
    )


class Classifier(LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.model = nn.Sequential(
            nn.Flatten(), nn.Linear(64, 300), nn.ReLU(), nn.Linear(300, 100), nn.ReLU(), nn.Linear(100, 10)
        )

    def training_step(self, batch: tuple[Tensor, Tensor], index: int) -> Tensor:
        images, labels = batch
        return cross_entropy(self.model(images), labels)

    def test_step(self, batch: tuple[Tensor, Tensor], index: int) -> None:
        images, labels = batch
        self.log("accuracy", digits.correct(self.model(images), labels))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=1.2e-3)


if __name__ == "__main__":
    main()

from pathlib import Path

import pytest
import torch

from asni.datasets import INFO, get, load
from asni.errors import UsageError


def test_the_package_holds_all_1797_digits() -> None:
    digits = load("digits")
    assert digits.info == INFO["digits"]
    order = torch.arange(1_500)
    labels = torch.cat([y for _, y in digits.train_batches(order, 100, augment=None, seed=0, epoch=0)])
    assert labels[:10].tolist() == list(range(10))
    labels = torch.cat([labels, *(y for _, y in digits.test_batches(100))])
    assert labels.bincount().tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]


def test_training_digits_have_mean_0_and_deviation_1() -> None:
    (images, _), *_ = load("digits").train_batches(torch.arange(1_500), 1_500, augment=None, seed=0, epoch=0)
    assert abs(float(images.mean())) < 1e-3
    assert abs(float(images.std()) - 1) < 1e-3


def test_the_first_digit_is_the_zero_of_the_source() -> None:
    images, _ = next(load("digits").train_batches(torch.tensor([0]), 1, augment=None, seed=0, epoch=0))
    first_rows = ((images[0, 0, :2] * 0.3750 + 0.3051) * 16).round().int().tolist()
    assert first_rows == [[0, 0, 5, 13, 9, 1, 0, 0], [0, 0, 13, 15, 10, 15, 5, 0]]


def test_digits_need_no_folder_and_take_none(tmp_path: Path) -> None:
    assert (get("digits") / "digits.npz").is_file()
    with pytest.raises(UsageError, match=r"digits.*folder"):
        get("digits", tmp_path)


def test_a_misspelt_dataset_gets_the_nearest_name() -> None:
    for ask in (get, load):
        with pytest.raises(UsageError, match=r"'cifar-10'.*'cifar10'"):
            ask("cifar-10")

"""Data that a user's own function returns."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from asni.datasets import Info, fingerprint, function, info_of, load
from asni.errors import UsageError

OWN = """
import numpy as np
import torch
from asni.datasets import Info
from tests.datasets.made_data import arrays

number = 3

def numbers(more=0):
    return tuple(array + more if "images" in name else array for name, array in arrays().items())

def tensors():
    return [torch.from_numpy(array) for array in arrays().values()]

def three():
    return tuple(arrays().values())[:3]

def nothing():
    pass

def lists():
    images, labels, *test = arrays().values()
    return images, labels.tolist(), *test

def sixteen_bits():
    images, *rest = arrays().values()
    return torch.from_numpy(images).bfloat16(), *rest

def wide():
    images, *rest = arrays().values()
    return images.astype(np.float64), *rest

def broken():
    return 1 / 0

class Stream:
    info = Info((1, 2, 2), 2, 4, 2)
    def train_batches(self, order, batch_size, **options):
        yield torch.zeros(4, 1, 2, 2), torch.zeros(4, dtype=torch.int64)
    def test_batches(self, batch_size, **options):
        yield torch.zeros(2, 1, 2, 2), torch.zeros(2, dtype=torch.int64)
"""


@pytest.fixture(autouse=True)
def _own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "own_data.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    function._called.cache_clear()
    yield
    sys.modules.pop("own_data", None)


@pytest.mark.parametrize("name", ["numbers", "tensors"])
def test_four_arrays_or_tensors_are_a_dataset(name: str) -> None:
    assert info_of(f"own_data:{name}") == load(f"own_data:{name}").info == Info((1, 4, 3), 3, 12, 5)
    assert fingerprint(f"own_data:{name}") == fingerprint("own_data:numbers", {"more": 0})


def test_options_are_passed_to_the_function_and_other_data_has_another_fingerprint() -> None:
    assert fingerprint("own_data:numbers", {"more": 1}) != fingerprint("own_data:numbers")


def test_a_dataset_of_ones_own_class_is_taken_as_it_is() -> None:
    dataset = load("own_data:Stream")
    assert type(dataset).__name__ == "Stream"
    assert fingerprint("own_data:Stream") == {"shape": [1, 2, 2], "classes": 2, "train": 4, "test": 2, "checksum": None}


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("own_data:number", {}, "'own_data:number' is an int; it must be a function that returns .*train_images"),
        ("own_data:nubers", {}, "'nubers'; did you mean 'numbers'"),
        ("no_such_module:load", {}, "cannot import 'no_such_module' for dataset"),
        ("own_data:numbers", {"less": 1}, r"'own_data:numbers' failed .*\"less\": 1.*unexpected keyword"),
        ("own_data:broken", {}, r"division by zero.*own_data\.py, line 34"),
        ("own_data:nothing", {}, "'own_data:nothing' returned None; it must return .*test_labels.*Dataset"),
        ("own_data:three", {}, "'own_data:three' returned 3 values; it must return"),
        ("own_data:lists", {}, "'own_data:lists': train_labels is a list, not a NumPy array or a tensor"),
        ("own_data:sixteen_bits", {}, "'own_data:sixteen_bits': train_images cannot be converted.*BFloat16"),
        ("own_data:wide", {}, "'own_data:wide': train_images holds float64"),
    ],
)
def test_what_is_no_data_is_refused_by_name(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        info_of(name, options)


def test_a_misspelt_dataset_is_told_all_forms() -> None:
    with pytest.raises(UsageError, match=r"'mnits'; did you mean 'mnist'\?.*\./folder.*file\.npz.*:function"):
        load("mnits")

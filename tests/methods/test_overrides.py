"""Settings of some methods: where they change something, and where they change nothing."""

import pytest

from asni.methods import unused
from asni.recipes import load


@pytest.mark.parametrize(
    ("recipe", "change", "methods"),
    [
        ("digits-fc", {"gamma": 4.0}, ["asni-1"]),
        ("digits-fc", {"gamma": 4.0}, ["control-signs"]),
        ("digits-fc", {"gamma": 4.0}, ["dense", "gmp", "asni-2"]),
        ("digits-fc", {"alpha": 90.0, "beta": 0.4}, ["gmp"]),
        ("mnist-fc", {"gamma": 4.0}, ["gmp"]),
        ("digits-fc", {"lottery_rounds": 3}, ["lottery-layerwise"]),
        ("digits-fc", {"lottery_rewind": 3}, ["magnitude-rewind"]),
        ("digits-fc", {"sparsity": 0.5, "lr": 0.1}, ["dense"]),
        ("digits-fc", {"amenable_epochs": 0.5}, ["dense", "asni-2"]),
    ],
)
def test_a_setting_that_changes_something(recipe: str, change: dict[str, float], methods: list[str]) -> None:
    assert list(unused(load(recipe).override(**change), methods)) == []


@pytest.mark.parametrize(
    ("recipe", "change", "methods"),
    [
        ("digits-fc", {"gamma": 4.0}, ["gmp", "snip"]),
        ("mnist-fc", {"gamma": 4.0}, ["dense"]),
        ("digits-fc", {"lottery_rounds": 3}, ["magnitude-rewind"]),
        ("digits-fc", {"lottery_rewind": 3}, ["lottery"]),
        ("digits-fc", {"amenable_epochs": 0.5}, ["asni-1", "control-signs"]),
    ],
)
def test_a_setting_that_changes_nothing(recipe: str, change: dict[str, float], methods: list[str]) -> None:
    [key] = change
    [message] = unused(load(recipe).override(**change), methods)
    assert message.startswith(f"--{key.replace('_', '-')} changes nothing for {', '.join(methods)}: ")

"""A setting of one method is refused where no chosen method uses it."""

import pytest

from asni.errors import UsageError
from asni.methods import require_used
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
    ],
)
def test_a_setting_that_changes_something_is_accepted(
    recipe: str, change: dict[str, float], methods: list[str]
) -> None:
    require_used(load(recipe).override(**change), methods)


@pytest.mark.parametrize(
    ("recipe", "change", "methods"),
    [
        ("digits-fc", {"gamma": 4.0}, ["gmp", "snip"]),
        ("mnist-fc", {"gamma": 4.0}, ["dense"]),
        ("digits-fc", {"lottery_rounds": 3}, ["magnitude-rewind"]),
        ("digits-fc", {"lottery_rewind": 3}, ["lottery"]),
    ],
)
def test_a_setting_that_changes_nothing_is_refused(recipe: str, change: dict[str, float], methods: list[str]) -> None:
    [key] = change
    with pytest.raises(UsageError, match=f"--{key.replace('_', '-')} .*{', '.join(methods)}"):
        require_used(load(recipe).override(**change), methods)

"""A slice of `make attack`: the same attacks with fewer cases, always the same ones."""

import os
from importlib import import_module

import pytest

from attack.outcomes import forbidden

SLICES = {
    "kills": (6, {"identical"}),
    "checkpoints": (30, {"the same weights"}),
    "unfinished": (20, {"the same numbers", "named"}),
    "finished": (60, {"the same numbers", "named"}),
    "readers": (210, {"read", "refused"}),
    "graphs": (300, {"run", "refused"}),
}


@pytest.mark.parametrize("name", SLICES)
def test_an_attack_ends_as_it_may(name: str) -> None:
    amount, expected = SLICES[name]
    counts = import_module(f"attack.{name}").run(0, amount)
    assert not forbidden(counts), counts
    assert expected <= counts.keys()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can mount a small disk")
def test_a_full_disk_is_an_error_and_the_next_attempt_ends_well() -> None:
    counts = import_module("attack.full_disk").run(0, 4)
    assert not forbidden(counts), counts

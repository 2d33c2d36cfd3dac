"""Moments at which a process dies by kill -9."""

import os
import random
import signal
import stat
from collections.abc import Callable
from functools import partial
from typing import Any

from attack.calling import Prepare

AT_A_WRITE = ("fsync", "torn", "replace", "unlink")


def random_moment(rng: random.Random, *, seconds: float, steps: int, writes: int) -> Prepare:
    """Any time, step or write of a command, the early ones more often, since a killed command has less left to do."""
    early = rng.random() ** 2
    if rng.random() < 0.3:
        return partial(_die_after_seconds, seconds * early)
    if rng.randrange(steps + writes) < steps:
        return dies_at("train_step", 1 + int(steps * early))
    return dies_at(rng.choice(AT_A_WRITE), 1 + int(writes * early))


def dies_at(moment: str, number: int) -> Prepare:
    """Let a process die at the n-th call of a function.

    train_step, unlink: before it. fsync: when a file is complete but not yet renamed. torn: there too, and half of the
    file is lost. replace: when the file has its final name, and nothing that follows has happened.
    """
    return partial(_die_at, moment, number)


def _die(*arguments: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _tear_and_die(file: int) -> None:
    if stat.S_ISREG(os.fstat(file).st_mode):
        os.ftruncate(file, os.fstat(file).st_size // 2)
    _die()


def _die_after_seconds(seconds: float) -> None:
    # The kernel ends the process at once, as no handler is set.
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-3))


def _die_at(moment: str, number: int) -> None:
    import asni.training.round

    if moment == "train_step":
        _patch(asni.training.round, moment, number, before=_die)
    elif moment == "torn":
        _patch(os, "fsync", number, before=_tear_and_die)
    elif moment == "replace":
        _patch(os, moment, number, after=_die)
    else:
        _patch(os, moment, number, before=_die)


def _nothing(*arguments: object) -> None:
    pass


def _patch(
    module: Any,
    function: str,
    number: int,
    *,
    before: Callable[..., None] = _nothing,
    after: Callable[..., None] = _nothing,
) -> None:
    original, calls = getattr(module, function), 0

    def counted(*arguments: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        mine = calls == number
        if mine:
            before(*arguments)
        result = original(*arguments, **options)
        if mine:
            after()
        return result

    setattr(module, function, counted)

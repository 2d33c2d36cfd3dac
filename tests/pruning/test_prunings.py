"""In how many prunings, along which curve: `every`, `schedule`, and the warning of prunings that take too much."""

import math
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from asni.errors import SparsityWarning, UsageError
from asni.methods.asni import ASNI
from asni.methods.gmp import GMP
from asni.methods.magnitude import Magnitude
from asni.pruning.gradual import GradualMagnitude
from asni.pruning.length import length, pruning_interval
from asni.pruning.schedules import Sigmoid, kept
from tests.training.training_by_hand import OPTIMIZERS, alive, small_network, train

WEIGHTS = 98


def counts(make: Any = ASNI, *, steps: int, **options: Any) -> list[int]:
    """How many weights live after each step."""
    model = small_network()
    optimizer = OPTIMIZERS["adam"](model.parameters())
    _ = make(model, optimizer, **options)
    living: list[int] = []
    train(model, optimizer, range(steps), lambda step: living.append(alive(model)))
    return living


def test_every_is_the_number_of_steps_between_two_prunings() -> None:
    living = counts(sparsity=0.9, total_steps=40, every=8, steps=40)
    curve = [kept(WEIGHTS, Sigmoid(0.9)(place, 5)) for place in range(5)]
    assert living == [*[WEIGHTS] * 7, *[number for number in curve for _ in range(8)]][:40]
    assert curve[3] == curve[4] == 10


@pytest.mark.parametrize("every", [0, 41, 2.5])
def test_an_interval_that_does_not_fit_is_refused(every: Any) -> None:
    with pytest.raises(UsageError, match=f"^every must be from 1 to the 40 steps of the training, not {every}"):
        counts(sparsity=0.9, total_steps=40, every=every, steps=0)


@pytest.mark.parametrize(
    ("epochs", "every", "prunings"), [(30, 100, 30), (160, 100, 160), (29, 58, 50), (3, 6, 50), (1, 2, 50)]
)
def test_30_epochs_are_pruned_once_an_epoch_and_fewer_about_50_times(epochs: int, every: int, prunings: int) -> None:
    model = small_network()
    pruner = ASNI(model, OPTIMIZERS["sgd"](model.parameters()), sparsity=0.9, epochs=epochs, steps_per_epoch=100)
    assert (pruner.every, pruner.prunings) == (every, prunings)


def test_without_epochs_there_are_about_50_prunings_too() -> None:
    assert [pruning_interval(length(total_steps=steps)) for steps in (10, 99, 100, 1_000_000)] == [1, 1, 2, 20_000]


def test_few_epochs_follow_the_same_sigmoid_as_many() -> None:
    """At the end of an epoch, the last of its five prunings stands at 0.8 of it: p = alpha * sigmoid((e - 5) / 1)."""
    model = small_network()
    pruner = ASNI(model, OPTIMIZERS["sgd"](model.parameters()), sparsity=0.9, epochs=10, steps_per_epoch=25)
    assert (pruner.every, pruner.prunings) == (5, 50)
    alpha = 0.9 * (1 + math.exp(5 - 9.6))
    curve = [alpha / (1 + math.exp(5 - (epoch + 0.8))) for epoch in range(9)]
    assert [pruner.planned((epoch + 1) * 25) for epoch in range(10)] == pytest.approx([*curve, 0.9], rel=1e-9)


@pytest.mark.parametrize("every", [1, 5, 10, 25])
def test_gamma_is_in_epochs_whatever_the_interval_is(every: int) -> None:
    model = small_network()
    options: dict[str, Any] = {"sparsity": 0.9, "epochs": 40, "steps_per_epoch": 50, "gamma": 2.0}
    pruner = ASNI(model, OPTIMIZERS["sgd"](model.parameters()), every=every, **options)
    # The sigmoid is steepest in the middle, where p' = p / 2 / gamma for each epoch.
    middle, epoch = 20 * 50, 50
    rise = (pruner.planned(middle + epoch // 2) - pruner.planned(middle - epoch // 2)) / 0.9
    assert rise == pytest.approx(0.25 / 2, abs=0.005)


def test_least_is_for_an_epoch_whatever_the_interval_is() -> None:
    """With 25 prunings an epoch, none takes 2 %, and yet only those at both ends are left out."""
    options: dict[str, Any] = {"sparsity": 0.9, "epochs": 40, "steps_per_epoch": 50, "every": 2}
    plain, left_out = (
        ASNI(model := small_network(), OPTIMIZERS["sgd"](model.parameters()), **options, least=least)
        for least in (0.0, 0.02)
    )
    assert left_out.planned(200) == left_out.planned(2) < plain.planned(50) < plain.planned(200)
    planned = [[pruner.planned(step) for step in range(0, 2001, 50)] for pruner in (left_out, plain)]
    assert planned[0] == pytest.approx(planned[1], abs=0.1)


def test_cubic_gives_the_masks_of_gmp() -> None:
    options: dict[str, Any] = {"sparsity": 0.9, "epochs": 6, "steps_per_epoch": 10, "every": 3}
    asni = counts(schedule="cubic", steps=60, **options)
    assert asni == counts(GMP, steps=60, **options)
    assert asni != counts(steps=60, **options)
    assert asni[-1] == 10


@pytest.mark.parametrize("shape", [{"beta": 0.4}, {"gamma": 2.0}, {"least": 0.001}])
def test_what_shapes_the_sigmoid_is_refused_for_the_cubic(shape: dict[str, float]) -> None:
    with pytest.raises(UsageError, match=r'beta, gamma and least shape the sigmoid: leave them out, or .*"cubic"'):
        counts(sparsity=0.9, epochs=6, steps_per_epoch=10, schedule="cubic", steps=0, **shape)


def test_an_unknown_schedule_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(UsageError, match="no schedule 'cubik'; did you mean 'cubic'"):
        counts(sparsity=0.9, total_steps=10, schedule="cubik", steps=0)


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"every": 4}, "every is 4 in the state and 5 here"),
        ({"schedule": "cubic"}, r"schedule is Polynomial.* in the state and Sigmoid"),
    ],
)
def test_a_checkpoint_of_another_interval_or_schedule_is_refused(changed: dict[str, Any], named: str) -> None:
    def made(**options: Any) -> ASNI:
        model = small_network()
        return ASNI(
            model, OPTIMIZERS["sgd"](model.parameters()), **{"sparsity": 0.5, "total_steps": 40, "every": 5, **options}
        )

    with pytest.raises(UsageError, match=named):
        made().load_state_dict(made(**changed).state_dict())


@contextmanager
def warned() -> Iterator[list[str]]:
    """The warnings of large prunings."""
    found: list[str] = []
    with warnings.catch_warnings(record=True) as all_of_them:
        warnings.simplefilter("always")
        yield found
    found += [str(each.message) for each in all_of_them if str(each.message).startswith("pruning ")]


def warnings_of(make: Any = ASNI, weights: int = 10_000, **options: Any) -> list[str]:
    model = nn.Linear(weights // 10, 10, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with warned() as messages:
        pruner = make(model, optimizer, **options)
        pruner.begin()
        pruner.detach()
    return messages


def test_a_pruning_that_takes_much_of_what_is_left_is_told_with_its_remedy() -> None:
    assert warnings_of(sparsity=0.95, epochs=10, steps_per_epoch=100, every=100) == [
        "pruning 9 of 10, after step 900, takes 59% of the weights that are left. "
        "Prune in smaller steps: every=25 (--prune-every 25)."
    ]


def test_a_training_without_room_for_smaller_prunings_should_be_longer() -> None:
    assert warnings_of(sparsity=0.9, total_steps=10) == [
        "pruning 8 of 10, after step 8, takes 46% of the weights that are left. "
        "Train for 40 steps with every=1, or prune less."
    ]
    assert not warnings_of(sparsity=0.9, total_steps=40, every=1)


def test_a_curve_that_begins_high_is_not_helped_by_more_prunings() -> None:
    assert warnings_of(sparsity=0.9, epochs=10, steps_per_epoch=100, beta=0) == [
        "pruning 1 of 50, after step 20, takes 45% of the weights that are left. Prune less, or along another curve."
    ]


def test_it_is_a_sparsity_warning_of_the_first_step() -> None:
    model = small_network()
    optimizer = OPTIMIZERS["sgd"](model.parameters())
    ASNI(model, optimizer, sparsity=0.9, total_steps=10)
    with pytest.warns(SparsityWarning, match=r"^pruning 8 of 10, after step 8, takes 46% of the weights that are left"):
        train(model, optimizer, range(10))


def test_who_prunes_once_means_to() -> None:
    assert not warnings_of(Magnitude, sparsity=0.9, total_steps=100)


@pytest.mark.parametrize("sparsity", [0.5, 0.9])
def test_a_fine_tuning_of_three_epochs_ends_at_the_exact_count_without_a_warning(sparsity: float) -> None:
    with warned() as messages:
        living = counts(sparsity=sparsity, epochs=3, steps_per_epoch=40, steps=120)
    assert (living[-1], messages) == (round(WEIGHTS * (1 - sparsity)), [])


REMEDIES: dict[str, Callable[[re.Match[str]], dict[str, Any]]] = {
    r"Prune in smaller steps: every=(\d+) \(--prune-every \1\)": lambda found: {"every": int(found[1])},
    r"Train for ([\d,]+) steps with every=(\d+), or prune less": lambda found: {
        "total_steps": int(found[1].replace(",", "")),
        "every": int(found[2]),
    },
    "Prune less, or along another curve": lambda found: {"sparsity": 0.2},
}


@settings(max_examples=150)
@given(
    sparsity=st.floats(0.05, 0.9999),
    epochs=st.integers(1, 60),
    per_epoch=st.integers(1, 300),
    every=st.none() | st.integers(1, 3000),
    gamma=st.none() | st.floats(0.01, 100),
    beta=st.sampled_from([0.5, 0.0, 0.3, 1.0]),
    cubic=st.booleans(),
)
def test_the_remedy_ends_the_warning(
    sparsity: float,
    epochs: int,
    per_epoch: int,
    every: int | None,
    gamma: float | None,
    beta: float,
    cubic: bool,
) -> None:
    curve: dict[str, Any] = {"schedule": "cubic"} if cubic else {"beta": beta, "gamma": gamma}
    interval = None if every is None else min(every, epochs * per_epoch)
    asked = {"sparsity": sparsity, "epochs": epochs, "steps_per_epoch": per_epoch, "every": interval, **curve}
    for message in warnings_of(weights=100_000, **asked):
        taken = re.search(r"takes (\d+)% of", message)
        assert taken
        assert int(taken[1]) > 20
        [(found, change)] = [
            (found, change) for pattern, change in REMEDIES.items() if (found := re.search(pattern, message))
        ]
        remedy = change(found)
        if "total_steps" in remedy:
            # So many steps in epochs as long as before.
            remedy["epochs"] = -(-remedy["total_steps"] // per_epoch)
            remedy["steps_per_epoch"] = None
            if remedy["total_steps"] % per_epoch:
                continue
        assert not warnings_of(weights=100_000, **{**asked, **remedy})


def test_a_schedule_of_one_s_own_is_looked_at_too() -> None:
    def halves(place: int, prunings: int) -> float:
        return 0.9 if place >= prunings / 2 else 0.0

    [message] = warnings_of(GradualMagnitude, schedule=halves, steps=100, every=10)
    assert message.startswith("pruning 6 of 10, after step 60, takes 90% of the weights that are left. Prune less")

"""The kernels of a training give the values and gradients that PyTorch has in float64."""

from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

from asni.engine.graph import Array
from asni.engine.program.layouts import NO_HALO, Halo, Machine
from tests.engine.native_programs import ISAS, machine_of
from tests.sparse.drawn_maps import BIG, Case, cases, check, check_target, double
from tests.sparse.kernel_calls import Call, Map, Target, run

pytestmark = pytest.mark.skipif(not ISAS, reason="there is no native core")


@settings(max_examples=40, deadline=None)
@given(case=cases, relu=st.booleans(), both=st.booleans())
def test_add(machine: Machine, case: Case, relu: bool, both: bool) -> None:
    draw = case.draw()
    maps = {"a": draw.map(draw.numbers(*case.shape)), "y": draw.unwritten(*case.shape)}
    if both:
        maps["b"] = draw.map(draw.numbers(*case.shape))
    operands = {"a": "a", "b": "b" if both else None, "y": "y"}
    found = run(machine, maps, Call("add", operands, {**case.size, "relu": int(relu)}), threads=case.threads)
    total = sum(maps[name].values for name in "ab" if name in maps)
    np.testing.assert_array_equal(found["y"], np.maximum(total, 0) if relu else total)


def test_the_relu_of_a_sum_keeps_nan(machine: Machine) -> None:
    maps = {"a": Map(np.full((1, 1, 1, 1), np.nan, np.float32)), "y": Map(np.zeros((1, 1, 1, 1), np.float32))}
    call = Call("add", {"a": "a", "b": None, "y": "y"}, {"channels": 1, "rows": 1, "columns": 1, "relu": 1})
    assert np.isnan(run(machine, maps, call)["y"]).all()


@settings(max_examples=40, deadline=None)
@given(case=cases, both=st.booleans())
def test_gradient_of_a_sum(machine: Machine, case: Case, both: bool) -> None:
    draw = case.draw()
    dy = draw.numbers(*case.shape)
    maps = {"dy": draw.map(dy, is_gradient=True)}
    targets = {}
    for name in ("da", "db")[: 1 + both]:
        more, targets[name] = draw.target(name, *case.shape)
        maps |= more
    found = run(
        machine, maps, Call("add_backward", {"dy": "dy", "db": Target(), **targets}, case.size), threads=case.threads
    )
    for target in targets.values():
        check_target(found, maps, target, dy)


@settings(max_examples=40, deadline=None)
@given(case=cases)
def test_sums_of_channels(machine: Machine, case: Case) -> None:
    draw = case.draw()
    dy, sums = draw.numbers(*case.shape), np.full(case.channels, np.nan, np.float32)
    maps = {"dy": draw.map(dy, is_gradient=True)}
    run(machine, maps, Call("channel_sums", {"dy": "dy"}, {**case.size, "sums": sums}), threads=case.threads)
    check(sums, dy.sum((0, 2, 3), dtype=np.float64))


def test_the_number_of_threads_changes_no_bit_of_a_sum(machine: Machine) -> None:
    dy, sums = BIG.draw().numbers(*BIG.shape), np.zeros((3, BIG.channels), np.float32)
    for threads in (1, 2, 3):
        fields = {**BIG.size, "sums": sums[threads - 1]}
        run(machine, {"dy": Map(dy, is_gradient=True)}, Call("channel_sums", {"dy": "dy"}, fields), threads=threads)
    assert (sums == sums[0]).all()


def test_a_sum_of_many_numbers_is_hardly_rounded(machine: Machine) -> None:
    # Equal numbers are all rounded in the same direction.
    dy, sums = np.full((33, 1, 60, 60), 0.1, np.float32), np.zeros(1, np.float32)
    fields = {"channels": 1, "rows": 60, "columns": 60, "sums": sums}
    run(machine, {"dy": Map(dy, is_gradient=True)}, Call("channel_sums", {"dy": "dy"}, fields))
    np.testing.assert_allclose(sums[0], dy.sum(dtype=np.float64), rtol=2e-6)


def dropped(
    machine: Machine, case: Case, probability: float, seed: int, salt: int, halo: Halo = NO_HALO
) -> tuple[Array, Array]:
    """What becomes of ones, and the gradient that ones become."""
    fields = {**case.size, "probability": probability, "seed": np.array([seed], np.uint64), "salt": salt}
    ones = np.ones(case.shape, np.float32)
    maps = {
        "x": Map(ones), "y": Map(ones * np.nan, halo), "dy": Map(ones, halo, is_gradient=True),
        "dx": Map(ones * np.nan, is_gradient=True),
    }  # fmt: skip
    forward = Call("drop_out", {"x": "x", "y": "y"}, fields)
    backward = Call("drop_out_backward", {"dy": "dy", "dx": Target("dx")}, fields)
    found = run(machine, maps, forward, backward, threads=case.threads)
    return found["y"], found["dx"]


@settings(max_examples=40, deadline=None)
@given(case=cases, probability=st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0]))
def test_dropout_drops_and_scales(machine: Machine, case: Case, probability: float) -> None:
    y, dx = dropped(machine, case, probability, seed=case.seed, salt=3, halo=(1, 1, 2, 0))
    np.testing.assert_array_equal(y, dx)
    scaled = 0.0 if probability == 1 else float(np.float32(1 / (1 - probability)))
    possible = [scaled] if probability == 0 else [0.0, scaled]
    assert np.isin(y, possible).all()


@pytest.mark.parametrize("probability", [0.2, 0.5])
def test_dropout_drops_the_fraction_that_was_asked_for_of_every_item_and_channel(
    machine: Machine, probability: float
) -> None:
    y, _ = dropped(machine, BIG, probability, seed=1, salt=2)
    for axes in ((0, 1, 2, 3), (1, 2, 3), (0, 2, 3), (0, 1, 3), (0, 1, 2)):
        share = (y == 0).mean(axes)
        deviation = (probability * (1 - probability) * np.size(share) / y.size) ** 0.5
        np.testing.assert_allclose(share, probability, rtol=0, atol=4.5 * deviation)


def test_every_batch_and_layer_drops_others(machine: Machine) -> None:
    masks = [dropped(machine, BIG, 0.5, seed, salt)[0].ravel() > 0 for seed in (1, 2) for salt in (1, 2)]
    correlations = np.corrcoef(np.array(masks, float))
    np.testing.assert_allclose(correlations, np.eye(4), atol=4.5 * len(masks[0]) ** -0.5)


def test_the_same_elements_are_dropped_on_every_processor_and_with_every_halo() -> None:
    found = []
    for isa, halo in product(ISAS, (NO_HALO, (1, 2, 1, 2))):
        with machine_of(isa) as machine:
            found.append(dropped(machine, BIG, 0.5, seed=1, salt=2, halo=halo)[0])
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])


def test_the_gradient_of_dropout_is_added_and_masked(machine: Machine) -> None:
    draw = BIG.draw()
    fields = {**BIG.size, "probability": 0.5, "seed": np.array([1], np.uint64), "salt": 2}
    dy = draw.numbers(*BIG.shape)
    maps = {
        "dy": Map(dy, is_gradient=True), "dx": draw.map(draw.numbers(*BIG.shape), is_gradient=True),
        "mask": draw.map(draw.numbers(*BIG.shape)),
    }  # fmt: skip
    target = Target("dx", accumulate=True, mask="mask")
    found = run(machine, maps, Call("drop_out_backward", {"dy": "dy", "dx": target}, fields), threads=3)
    check_target(found, maps, target, dy * dropped(machine, BIG, 0.5, seed=1, salt=2)[0])


def entropy_call(classes: int, scale: float) -> Call:
    fields = {"classes": classes, "labels": 0, "output": 0, "scale": np.array([scale])}
    return Call("cross_entropy", {"x": "x", "dx": "dx"}, fields)


def entropy(
    machine: Machine, logits: Array, labels: Array, scale: float = 1.0, threads: int = 1
) -> tuple[float, Array]:
    """The loss and the gradient of the logits."""
    x, loss = logits.astype(np.float32)[:, :, None, None], np.zeros(1, np.float32)
    maps = {"x": Map(x), "dx": Map(np.full_like(x, np.nan), is_gradient=True)}
    call = entropy_call(logits.shape[1], scale)
    found = run(machine, maps, call, threads=threads, arrays=[labels.astype(np.int64)], outputs=[loss])
    return float(loss[0]), found["dx"][:, :, 0, 0]


@settings(max_examples=60, deadline=None)
@given(
    items=st.integers(1, 40),
    classes=st.integers(1, 20),
    largest=st.sampled_from([0.0, 1.0, 100.0, 1e4]),
    scale=st.sampled_from([1.0, 0.25]),
    seed=st.integers(0, 2**32),
)
def test_cross_entropy(machine: Machine, items: int, classes: int, largest: float, scale: float, seed: int) -> None:
    draw = np.random.default_rng(seed)
    logits, labels = draw.normal(size=(items, classes)) * largest, draw.integers(0, classes, items)
    logits = logits.astype(np.float32)
    loss, gradient = entropy(machine, logits, labels, scale, threads=1 + seed % 2)
    inside = double(logits, needs_gradient=True)
    expected = scale * functional.cross_entropy(inside, torch.from_numpy(labels))
    expected.backward()
    assert inside.grad is not None
    np.testing.assert_allclose(loss, expected.item(), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(gradient, inside.grad, rtol=1e-5, atol=1e-6 * scale / items)


@pytest.mark.parametrize("logit", [np.nan, np.inf, -np.inf])
def test_the_loss_of_logits_that_are_not_finite_is_nan(machine: Machine, logit: float) -> None:
    logits = np.zeros((20, 3))
    logits[7, 1] = logit
    assert np.isnan(entropy(machine, logits, np.zeros(20))[0])


@pytest.mark.parametrize("label", [-1, 3, 2**32, -100])
def test_the_loss_of_a_label_without_a_class_is_nan(machine: Machine, label: int) -> None:
    assert np.isnan(entropy(machine, np.zeros((20, 3)), np.full(20, label))[0])


def test_the_loss_is_nan_if_a_value_before_it_was_not_finite(machine: Machine) -> None:
    x, loss = np.zeros((2, 3, 1, 1), np.float32), np.zeros(1, np.float32)
    maps = {name: Map(x) for name in ("x", "dx", "y")} | {"a": Map(np.full_like(x, -np.inf))}
    add = Call("add", {"a": "a", "b": None, "y": "y"}, {"channels": 3, "rows": 1, "columns": 1, "relu": 1})
    run(machine, maps, add, entropy_call(3, 1.0), arrays=[np.zeros(2, np.int64)], outputs=[loss])
    assert np.isnan(loss[0])


@settings(max_examples=40, deadline=None)
@given(case=cases)
def test_an_input_that_is_a_gradient_has_blank_lanes(machine: Machine, case: Case) -> None:
    draw = case.draw()
    array = draw.numbers(*case.shape)
    maps = {"value": draw.map(np.full(case.shape, np.nan), is_gradient=True)}
    layout = machine.lanes
    top, left, bottom, right = maps["value"].halo
    row = layout * (left + case.columns + right)
    fields = {
        **case.size, "index": 0, "channel": row * (top + case.rows + bottom), "row": row, "element": layout, "blank": 1,
    }  # fmt: skip
    found = run(machine, maps, Call("input", {"value": "value"}, fields), threads=case.threads, arrays=[array])
    np.testing.assert_array_equal(found["value"], array)

"""What a network computes follows from its numbers: it repeats bit for bit, and evaluation leaves no trace in it."""

import copy
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from asni.engine.graph import Array
from asni.sparse.network.network import Network
from asni.sparse.tracing.tracing import traced
from tests.sparse.random_networks import Drawn, random_network
from tests.sparse.small_models import Own

SHAPE = (3, 9, 7)


def twins(count: int, items: int, threads: int) -> Iterator[tuple[Drawn, Network, Network]]:
    """Random networks, each of them twice."""
    for seed in range(count):
        drawn = random_network(Random(seed), 8, items)
        yield drawn, _network_of(drawn, threads), _network_of(drawn, threads)


def _network_of(drawn: Drawn, threads: int) -> Network:
    model = copy.deepcopy(drawn.model)
    network = Network(drawn.steps, model, drawn.masks, items=len(drawn.images), threads=threads)
    network.load()
    return network


def trained(network: Network, drawn: Drawn, between: Callable[[], object] = lambda: None) -> tuple[Array, ...]:
    """Three steps by plain gradient descent: all losses, gradients, numbers and statistics, one after another."""
    found: list[Array] = []
    torch.manual_seed(0)
    for _ in range(3):
        found.append(np.array(network.train(drawn.images, drawn.labels, 1.0)))
        between()
        found += [network.gradient.copy(), *(buffer.copy() for buffer in network._drafter.buffers.values())]
        network.weights[:] -= np.float32(0.01) * network.gradient.sum(0)
    return (*found, network.weights.copy())


def same(one: tuple[Array, ...], other: tuple[Array, ...]) -> bool:
    return all(a.tobytes() == b.tobytes() for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_two_runs_have_the_same_bits(threads: int) -> None:
    for drawn, one, other in twins(12, items=40, threads=threads):
        assert same(trained(one, drawn), trained(other, drawn))


def test_evaluation_leaves_no_trace() -> None:
    for drawn, one, other in twins(8, items=20, threads=2):
        norms = [step for step in drawn.steps.steps if step.kind == "batch_norm"]
        has_statistics = all("running_mean" in norm.parameters for norm in norms)
        batches = [drawn.images[:3], np.concatenate([drawn.images] * (2 if has_statistics else 1))]

        def evaluate(network: Network = other, batches: list[Array] = batches) -> None:
            for batch in batches:
                network.forward(batch, training=False)

        assert same(trained(one, drawn), trained(other, drawn, evaluate))


def test_forward_and_backward_are_a_step_of_training() -> None:
    for drawn, one, other in twins(8, items=20, threads=2):
        torch.manual_seed(3)
        loss = one.train(drawn.images, drawn.labels, 1.0)
        torch.manual_seed(3)
        logits = torch.from_numpy(other.forward(drawn.images, training=True)).requires_grad_()
        its = nn.functional.cross_entropy(logits, torch.from_numpy(drawn.labels))
        (gradient,) = torch.autograd.grad(its, logits)
        other.backward(gradient.numpy())
        assert float(its.detach()) == pytest.approx(loss, rel=1e-5)
        size = max(1e-3, np.abs(one.gradient).max(initial=0))
        np.testing.assert_allclose(other.gradient, one.gradient, atol=1e-5 * size)
        assert same(tuple(one._drafter.buffers.values()), tuple(other._drafter.buffers.values()))


def model(*, dropped: float = 0.5) -> nn.Module:
    def forward(self: Any, x: Tensor) -> Any:
        x = self.norm(self.first(x)).relu()
        x = (self.second(x) + x).relu()
        return self.last(self.drop(self.pool(x)).flatten(1))

    torch.manual_seed(5)
    return Own(
        forward, first=nn.Conv2d(3, 8, 3, padding=1), norm=nn.BatchNorm2d(8), second=nn.Conv2d(8, 8, 3, padding=1),
        pool=nn.MaxPool2d(2), drop=nn.Dropout(dropped), last=nn.Linear(96, 5),
    )  # fmt: skip


def masks_of(model: nn.Module) -> dict[str, Tensor]:
    """Half of the weights; the others become zeros."""
    masks = {name: each.detach() > 0 for name, each in model.named_parameters() if each.ndim > 1}
    for name, mask in masks.items():
        model.get_parameter(name).data.mul_(mask)
    return masks


def batch_of(items: int) -> tuple[Array, Array]:
    numbers = np.random.default_rng(items)
    return numbers.normal(size=(items, *SHAPE)).astype(np.float32), numbers.integers(0, 5, items)


@pytest.mark.parametrize("count", [0, 1, 12, 13, 41])
def test_evaluation_is_that_of_the_model(count: int) -> None:
    ours = model()
    masks = masks_of(ours)
    network = Network(traced(ours, torch.zeros(2, *SHAPE)), ours, masks, items=12, threads=2)
    network.load()
    network.train(*batch_of(12), 1.0)
    images, _ = batch_of(count)
    expected = ours.eval().double()(torch.from_numpy(images).double()).detach().numpy()
    np.testing.assert_allclose(
        network.forward(images, training=False), expected, atol=2e-6 * np.abs(expected).max(initial=1)
    )


def test_a_large_batch_leaves_nothing_to_a_small_one() -> None:
    found = []
    for sizes in ([10], [40, 10]):
        ours = model()
        network = Network(traced(ours, torch.zeros(2, *SHAPE)), ours, masks_of(ours), items=40, threads=2)
        network.load()
        for items in sizes:
            ours.get_submodule("norm").reset_running_stats()  # type: ignore[operator]
            torch.manual_seed(1)
            loss = network.train(*batch_of(items), 1.0)
        found.append((np.array(loss), network.gradient.copy(), *(each.numpy() for each in ours.buffers())))
    assert same(*found)


def test_the_memory_format_of_a_model_makes_no_difference() -> None:
    found = []
    for memory_format in (torch.contiguous_format, torch.channels_last):
        ours = model().to(memory_format=memory_format)  # type: ignore[call-overload]
        network = Network(traced(ours, torch.zeros(2, *SHAPE)), ours, masks_of(ours), items=12, threads=2)
        network.load()
        torch.manual_seed(1)
        loss = network.train(*batch_of(12), 1.0)
        network.weights[:] -= network.gradient.sum(0)
        network.store()
        assert ours.second.weight.is_contiguous(memory_format=memory_format)
        stored = [each.detach().contiguous().numpy() for each in ours.parameters()]
        found.append((np.array(loss), network.gradient.copy(), *stored))
    assert same(*found)


def test_storing_and_loading_changes_no_bit() -> None:
    ours = model()
    network = Network(traced(ours, torch.zeros(2, *SHAPE)), ours, masks_of(ours), items=12, threads=2)
    network.load()
    network.train(*batch_of(12), 1.0)
    network.weights[:] -= network.gradient.sum(0)
    before = network.weights.copy()
    network.store()
    network.weights[:] = np.nan
    network.load()
    used = np.concatenate([np.arange(each.start, each.stop) for each in network.slices.values()])
    np.testing.assert_array_equal(network.weights[used], before[used])
    for name, mask in masks_of(model()).items():
        assert not ours.get_parameter(name)[~mask].any()


def test_statistics_are_those_of_torch() -> None:
    ours = model(dropped=0.0)
    masks, theirs = masks_of(ours), copy.deepcopy(ours)
    network = Network(traced(ours, torch.zeros(2, *SHAPE)), ours, masks, items=12, threads=2)
    network.load()
    for items in (12, 3, 1):
        images, labels = batch_of(items)
        network.train(images, labels, 1.0)
        theirs(torch.from_numpy(images))
    for (name, buffer), expected in zip(ours.named_buffers(), theirs.buffers(), strict=True):
        torch.testing.assert_close(buffer, expected, rtol=1e-5, atol=1e-6, msg=name)
    assert int(ours.get_buffer("norm.num_batches_tracked")) == 3


def test_the_gradient_of_a_map_that_only_a_2x2_pool_reads_takes_its_place() -> None:
    """A pool whose windows overlap reads places again that already have their gradient."""

    def floats(pool: nn.Module) -> int:
        model = nn.Sequential(nn.Conv2d(1, 8, 1), pool, nn.Flatten(), nn.Linear(512, 4))
        network = Network(traced(model, torch.zeros(2, 1, 16, 16)), model, {}, items=1, threads=1)
        return network._memory.program.group_floats // network.machine.lanes

    a_map = 8 * 16 * 16
    assert floats(nn.MaxPool2d(3, 2, 1)) - floats(nn.MaxPool2d(2)) == pytest.approx(a_map, rel=0.05)

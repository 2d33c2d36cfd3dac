import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from asni.datasets.order import epoch_order, share
from asni.errors import UsageError


@given(size=st.integers(1, 60), data=st.data(), seed=st.integers(0, 5), epoch=st.integers(0, 5))
def test_one_pass_visits_every_sample_once(size: int, data: st.DataObject, seed: int, epoch: int) -> None:
    batch_size = data.draw(st.integers(1, size))
    order = epoch_order(size, batch_size, -(-size // batch_size), seed=seed, epoch=epoch)
    assert sorted(order.tolist()) == list(range(size))


def test_epochs_and_seeds_differ_and_the_global_generator_plays_no_part() -> None:
    torch.manual_seed(1)
    first = epoch_order(100, 10, 10, seed=0, epoch=0)
    torch.manual_seed(2)
    assert torch.equal(first, epoch_order(100, 10, 10, seed=0, epoch=0))
    assert not torch.equal(first, epoch_order(100, 10, 10, seed=0, epoch=1))
    assert not torch.equal(first, epoch_order(100, 10, 10, seed=1, epoch=0))


@given(size=st.integers(2, 30), steps=st.integers(1, 20), data=st.data())
def test_other_lengths_cut_an_endless_stream_of_permutations(size: int, steps: int, data: st.DataObject) -> None:
    batch_size = data.draw(st.integers(1, size).filter(lambda b: -(-size // b) != steps))
    epochs = [epoch_order(size, batch_size, steps, seed=3, epoch=epoch) for epoch in range(5)]
    assert all(len(order) == steps * batch_size for order in epochs)
    stream = torch.cat(epochs)
    for number, permutation in enumerate(torch.split(stream, size)):
        one_pass = epoch_order(size, size, 1, seed=3, epoch=number)
        assert torch.equal(permutation, one_pass[: len(permutation)])


@pytest.mark.parametrize(("batch_size", "steps"), [(11, 1), (0, 1), (5, 0)])
def test_impossible_batches_are_refused(batch_size: int, steps: int) -> None:
    with pytest.raises(UsageError, match=rf"batch_size = {batch_size} .* 10\b" if steps else rf"step.* {steps}\b"):
        epoch_order(10, batch_size, steps, seed=0, epoch=0)


@given(begin=st.integers(0, 100), length=st.integers(0, 50), world=st.integers(1, 9))
def test_shares_are_even_and_together_the_whole(begin: int, length: int, world: int) -> None:
    shares = [share(begin, begin + length, rank, world) for rank in range(world)]
    assert [position for part in shares for position in part] == list(range(begin, begin + length))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1

"""Batches that the kernels cannot take are refused before they are read."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from asni.engine import machine, native
from asni.engine.graph import Array
from asni.errors import UsageError
from asni.sparse.network.network import Network
from asni.sparse.stepper import Stepper
from asni.sparse.steps import Step, Steps, UnsupportedError
from asni.sparse.tracing.tracing import traced

IMAGES = np.random.default_rng(0).normal(size=(6, 3, 4, 4)).astype(np.float32)
LABELS = np.array([0, 1, 2, 3, 4, 0])


def model_of(*layers: nn.Module) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 4, 3), *layers, nn.Flatten(), nn.Linear(16, 5))


def network_of(model: nn.Module, items: int = 6) -> Network:
    masks = {name: torch.rand(each.shape) < 0.4 for name, each in model.named_parameters() if each.ndim > 1}
    for name, mask in masks.items():
        model.get_parameter(name).data.mul_(mask)
    network = Network(traced(model, torch.zeros(2, 3, 4, 4)), model, masks, items=items, threads=2)
    network.load()
    return network


def test_there_is_no_training_without_the_native_core(monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_of()
    monkeypatch.setattr(native, "_loaded", native.load(Path(), native.NUMPY))
    with pytest.raises(UnsupportedError, match=r"need the native core \(ASNI_ISA=numpy\)"):
        network_of(model)


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (IMAGES[:, :2], r"^images of shape \(2, 4, 4\) for a network that was made for \(3, 4, 4\).$"),
        (IMAGES.reshape(6, -1), r"^images of shape \(48,\) for a network that was made for \(3, 4, 4\).$"),
        (IMAGES[..., None], r"^images of shape \(3, 4, 4, 1\) for a network that was made for \(3, 4, 4\).$"),
        (IMAGES.astype(np.float64), r"^images of float64: the kernels train on float32.$"),
        ((IMAGES * 9).astype(np.uint8), r"^images of uint8: the kernels train on float32.$"),
        (IMAGES[:0], r"^a batch of 0 images for kernels that were made for 1 to 6.$"),
        (np.concatenate([IMAGES, IMAGES]), r"^a batch of 12 images for kernels that were made for 1 to 6.$"),
    ],
)
def test_images_that_do_not_fit_are_refused(images: Array, message: str) -> None:
    network = network_of(model_of())
    with pytest.raises(UsageError, match=message):
        network.train(images, np.zeros(len(images), np.int64), 1.0)
    with pytest.raises(UsageError, match=message):
        network.forward(images, training=True)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (LABELS + 1, r"^a label of 5 for a network with 5 classes.$"),
        (LABELS - 100, r"^a label of -100 for a network with 5 classes.$"),
        (LABELS[:5], r"^labels of shape \(5,\) and int64 for 6 images: one int64 for each.$"),
        (LABELS.astype(np.int32), r"^labels of shape \(6,\) and int32 for 6 images: one int64 for each.$"),
        (np.eye(5)[LABELS], r"^labels of shape \(6, 5\) and float64 for 6 images: one int64 for each.$"),
    ],
)
def test_labels_that_do_not_fit_are_refused(labels: Array, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        network_of(model_of()).train(IMAGES, labels, 1.0)


@pytest.mark.parametrize("shape", [(6, 4), (5, 5), (12, 5)])
def test_a_gradient_that_does_not_fit_is_refused(shape: tuple[int, int]) -> None:
    network = network_of(model_of())
    network.forward(IMAGES, training=True)
    with pytest.raises(UsageError, match=r"for logits of \(6, 5\).$"):
        network.backward(np.zeros(shape, np.float32))


def test_arrays_need_not_be_contiguous() -> None:
    network = network_of(model_of())
    expected = network.train(IMAGES, LABELS, 1.0), network.gradient.copy()
    wide = np.repeat(LABELS, 2)
    assert network.train(np.asfortranarray(IMAGES), wide[::2], 1.0) == expected[0]
    np.testing.assert_array_equal(network.gradient, expected[1])


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
@pytest.mark.parametrize("place", [(0, 0, 0, 0), (5, 2, 3, 3)])
def test_a_loss_is_not_a_number_if_a_pixel_is_none(wrong: float, place: tuple[int, ...]) -> None:
    """Though a pruned weight does not even look at it."""
    model = model_of()
    network = Network(
        traced(model, torch.zeros(2, 3, 4, 4)), model, {"0.weight": torch.zeros(4, 3, 3, 3, dtype=torch.bool)},
        items=6, threads=2,
    )  # fmt: skip
    network.load()
    images = IMAGES.copy()
    images[place] = wrong
    assert np.isnan(network.train(images, LABELS, 1.0))
    assert np.isnan(network.forward(images, training=True)).all()
    assert np.isfinite(network.train(IMAGES, LABELS, 1.0)), "a batch leaves nothing to the next"


def test_batch_norm_refuses_a_single_value() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(48, 8), nn.BatchNorm1d(8), nn.Linear(8, 5))
    network = network_of(model)
    with pytest.raises(UsageError, match=r"^2: batch norm needs more than one value in each channel, and gets one"):
        network.train(IMAGES[:1], LABELS[:1], 1.0)
    assert int(model[2].num_batches_tracked) == 0  # type: ignore[arg-type]
    assert np.isfinite(network.train(IMAGES[:2], LABELS[:2], 1.0))


def test_batch_norm_without_running_statistics_takes_those_of_the_batch() -> None:
    model = model_of(nn.BatchNorm2d(4, track_running_stats=False))
    network = network_of(model)
    expected = model.eval()(torch.from_numpy(IMAGES)).detach().numpy()
    np.testing.assert_allclose(network.forward(IMAGES, training=False), expected, atol=1e-5)
    message = r"^1: batch norm without running statistics cannot be evaluated in parts$"
    with pytest.raises(UnsupportedError, match=message):
        network.forward(np.concatenate([IMAGES, IMAGES]), training=False)
    with pytest.raises(UnsupportedError, match=message):
        Stepper(model.train(), torch.optim.SGD(model.parameters()), {}, batch_size=6, shape=(3, 4, 4))


def test_maps_that_offsets_of_32_bits_do_not_reach_are_refused() -> None:
    settings = {"stride": (1, 1), "dilation": (1, 1), "pads": (1, 1, 1, 1), "groups": 1, "relu": False}
    conv = Step("conv", "0", ("x",), "y", settings, {"weight": "0.weight"})
    steps = Steps("x", "y", (conv,), dict.fromkeys("xy", (1, 1, 24_000, 24_000)))
    model = nn.Sequential(nn.Conv2d(1, 1, 3, padding=1, bias=False))
    with pytest.raises(UnsupportedError, match=r"images have a map of \d+ GB, and the kernels reach 8 GB"):
        Network(steps, model, {}, items=1, threads=1)


def test_a_batch_for_which_memory_is_short_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own, limit = tmp_path / "own", tmp_path / "memory.max"
    own.write_text("0::/\n")
    monkeypatch.setattr(machine, "OWN_GROUPS", own)
    monkeypatch.setattr(machine, "GROUPS", tmp_path)
    limit.write_text(f"{10**9}")
    assert np.isfinite(network_of(model_of(), items=60_000).forward(IMAGES, training=False)).all()
    limit.write_text(f"{10**7}")
    with pytest.raises(UnsupportedError, match=r"^a batch of 60000 takes \d+ MB in the layout .*, of 10 MB of memory$"):
        network_of(model_of(), items=60_000)

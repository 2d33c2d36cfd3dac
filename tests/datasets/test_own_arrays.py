"""Arrays of a user's own, in an .npz file."""

import os
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from asni.datasets import Info, fingerprint, get, info_of, load
from asni.errors import AsniError, UsageError
from tests.datasets.made_data import arrays, save_npz


def test_a_file_of_arrays_gives_its_sizes_and_its_images_in_order(tmp_path: Path) -> None:
    name = str(save_npz(tmp_path / "own.npz"))
    assert info_of(name) == load(name).info == Info((1, 4, 3), 3, 12, 5)
    [(images, labels)] = load(name).test_batches(10)
    assert labels.tolist() == [0, 1, 2, 0, 1]
    train = arrays()["train_images"].astype(np.float64)
    expected = (torch.from_numpy(arrays()["test_images"][:, None]) - train.mean()) / train.std()
    torch.testing.assert_close(images, expected.float())


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_every_channel_of_the_training_images_has_mean_0_and_deviation_1(tmp_path: Path, dtype: type) -> None:
    images: NDArray[Any] = np.random.default_rng(0).integers(0, 256, (12, 3, 4, 3)).astype(dtype)
    images[:, 1] = images[:, 1] // 8 + 200
    images[:, 2] = 7.1
    save_npz(tmp_path / "own.npz", train_images=images, test_images=images[:5])
    dataset = load(str(tmp_path / "own.npz"))
    [(normalised, _)] = dataset.train_batches(torch.arange(12), 12, augment=None, seed=0, epoch=0)
    assert dataset.info.shape == (3, 4, 3)
    torch.testing.assert_close(normalised.mean((0, 2, 3)), torch.zeros(3), atol=1e-6, rtol=0)
    torch.testing.assert_close(normalised.std((0, 2, 3), correction=0), torch.tensor([1.0, 1.0, 0.0]))


def test_floats_are_cropped_and_flipped_too(tmp_path: Path) -> None:
    as_bytes, as_floats = arrays(), arrays()["train_images"].astype(np.float32)
    save_npz(tmp_path / "bytes.npz")
    save_npz(tmp_path / "floats.npz", train_images=as_floats, test_images=as_bytes["test_images"].astype(np.float32))
    batches = [
        next(load(str(tmp_path / name)).train_batches(torch.arange(12), 12, augment="crop-flip", seed=0, epoch=0))[0]
        for name in ("bytes.npz", "floats.npz")
    ]
    assert torch.equal(*batches)


def test_there_may_be_more_classes_than_a_byte_counts(tmp_path: Path) -> None:
    images, labels = np.zeros((300, 1, 1), np.uint8), np.arange(300)
    name = str(
        save_npz(tmp_path / "own.npz", train_images=images, train_labels=labels, test_images=images, test_labels=labels)
    )
    assert load(name).info.classes == info_of(name).classes == 300
    [(_, found)] = load(name).test_batches(300)
    assert found.tolist() == labels.tolist()


def test_other_pixels_have_another_fingerprint_and_the_same_ones_the_same(tmp_path: Path) -> None:
    first, copy = save_npz(tmp_path / "own.npz"), tmp_path / "compressed.npz"
    given: dict[str, Any] = arrays()
    np.savez_compressed(copy, **given)
    changed = arrays()["test_images"].copy()
    changed[4, 3, 2] += 1
    other = save_npz(tmp_path / "other.npz", test_images=changed)
    assert fingerprint(str(first)) == fingerprint(str(copy))
    before, after = fingerprint(str(first)) or {}, fingerprint(str(other)) or {}
    differing = {key for key, value in before.items() if value != after[key]}
    assert differing == {"checksum"}


FLOATS = arrays()["train_images"].astype(np.float32)


@pytest.mark.parametrize("use", [info_of, load])
@pytest.mark.parametrize(
    ("replaced", "message"),
    [
        ({"train_images": FLOATS.astype(np.float64)}, "train_images holds float64.*uint8 or float32"),
        ({"test_images": np.zeros((5, 4, 3), np.int64)}, "test_images holds int64.*uint8 or float32"),
        ({"train_images": np.zeros((12, 12), np.uint8)}, r"train_images has shape \(12, 12\).*\(n, height, width\)"),
        ({"train_images": np.zeros((12, 0, 3), np.uint8)}, r"train_images has shape \(12, 0, 3\)"),
        ({"train_images": np.zeros((12, 8, 8, 3), np.uint8)}, r"\(12, 8, 8, 3\).*transpose them by \(0, 3, 1, 2\)"),
        ({"test_images": np.zeros((5, 4, 4), np.uint8)}, r"\(1, 4, 3\).*\(1, 4, 4\)"),
        ({"train_labels": np.zeros(12)}, "train_labels must be.*integer.*float64"),
        ({"test_labels": np.zeros((5, 3), np.int64)}, r"test_labels must be.*\(5, 3\)"),
        ({"train_labels": np.arange(11) % 3}, "train_images holds 12 images, train_labels 11 labels"),
        ({"test_images": np.zeros((0, 4, 3), np.uint8), "test_labels": np.zeros(0, np.int64)}, "test_images holds 0"),
        ({"train_labels": np.arange(12) % 3 + 1}, "train_labels go from 1 to 3 without a 0.*must be 0 to 2"),
        ({"train_labels": np.arange(12) % 3 - 1}, "train_labels go from -1 to 1 without a 2.*must be 0 to 2"),
        ({"train_labels": np.arange(12) % 3 * 2}, "train_labels go from 0 to 4 without a 1.*must be 0 to 2"),
        ({"train_labels": np.zeros(12, np.int64)}, r"at least two classes, not only \[0\]"),
        ({"test_labels": np.array([None] * 5)}, "test_labels holds Python objects"),
    ],
)
def test_arrays_that_cannot_be_trained_on_are_refused_by_name(
    tmp_path: Path, use: Callable[[str], object], replaced: dict[str, Any], message: str
) -> None:
    name = str(save_npz(tmp_path / "own.npz", **replaced))
    with pytest.raises(UsageError, match=rf"own\.npz: .*{message}"):
        use(name)


@pytest.mark.parametrize("label", [3, -1])
def test_a_test_label_without_a_class_is_named_with_its_image(tmp_path: Path, label: int) -> None:
    name = str(save_npz(tmp_path / "own.npz", test_labels=np.array([0, 1, label, 0, 1])))
    with pytest.raises(UsageError, match=rf"own\.npz: .*test set has label {label} at image 2; .* 0 to 2"):
        load(name)


def test_an_image_that_is_not_finite_is_named(tmp_path: Path) -> None:
    images = FLOATS.copy()
    images[7, 1, 1] = np.nan
    name = str(save_npz(tmp_path / "own.npz", train_images=images))
    with pytest.raises(UsageError, match=r"own\.npz: train_images: image 7 holds NaN"):
        load(name)


def test_a_missing_array_is_named_with_the_nearest(tmp_path: Path) -> None:
    given: dict[str, Any] = arrays()
    given["train_image"] = given.pop("train_images")
    np.savez(tmp_path / "own.npz", **given)
    with pytest.raises(UsageError, match=r"own\.npz: no array 'train_images'; did you mean 'train_image'\?"):
        info_of(str(tmp_path / "own.npz"))


@pytest.mark.parametrize("use", [info_of, load, fingerprint])
def test_a_missing_or_damaged_file_is_named(tmp_path: Path, use: Callable[[str], object]) -> None:
    with pytest.raises(UsageError, match=r"no file '.*own\.npz'"):
        use(str(tmp_path / "own.npz"))
    sound = save_npz(tmp_path / "own.npz").read_bytes()
    for content in (b"", b"no archive", sound[: len(sound) // 2]):
        (tmp_path / "own.npz").write_bytes(content)
        with pytest.raises(AsniError, match=r"own\.npz cannot be read"):
            use(str(tmp_path / "own.npz"))


def test_damaged_pixels_are_found(tmp_path: Path) -> None:
    path = save_npz(tmp_path / "own.npz")
    pixels = arrays()["train_images"].tobytes()
    path.write_bytes(path.read_bytes().replace(pixels, pixels[::-1]))
    with pytest.raises(UsageError, match=r"own\.npz cannot be read.*CRC"):
        load(str(path))


def test_a_file_takes_no_options(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"own\.npz' takes no dataset_options"):
        load(str(save_npz(tmp_path / "own.npz")), {"size": [8, 8]})


def test_there_is_nothing_to_fetch(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="your own data"):
        get(str(save_npz(tmp_path / "own.npz")))


def npy(shape: str, dtype: str, content: bytes = b"") -> bytes:
    """A NumPy array in a file whose header says anything."""
    header = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + content


def replace(path: Path, name: str, content: bytes, compression: int = zipfile.ZIP_STORED) -> str:
    """Write the file with something else in the place of one array."""
    save_npz(path)
    with zipfile.ZipFile(path) as archive:
        members = {member: archive.read(member) for member in archive.namelist()}
    with zipfile.ZipFile(path, "w", compression) as archive:
        for member, data in (members | {f"{name}.npy": content}).items():
            archive.writestr(member, data)
    return str(path)


@pytest.mark.parametrize("name", ["train_labels", "test_images"])
@pytest.mark.parametrize(
    "shape",
    [
        "(1099511627776,)",
        "(12, 100000, 100000)",
        "(4611686018427387904, 4611686018427387904)",
        f"({5000 * '9'},)",
        f"({200 * '1,'})",
        "(-5,)",
        "(12, -1)",
        "(True,)",
        "('a',)",
        "()",
    ],
)
@pytest.mark.parametrize("read", [info_of, load])
def test_a_header_that_does_not_fit_its_bytes_is_refused_before_memory_is_taken(
    tmp_path: Path, name: str, shape: str, read: Callable[[str], object]
) -> None:
    path = replace(tmp_path / "own.npz", name, npy(shape, "|u1", bytes(96)))
    with pytest.raises(UsageError, match=rf"own\.npz: {name} is (damaged|not a NumPy array)") as refusal:
        read(path)
    assert len(str(refusal.value)) < 600


def test_a_file_that_unpacks_to_far_more_than_its_length_is_refused_before_memory_is_taken(tmp_path: Path) -> None:
    path = replace(
        tmp_path / "own.npz", "train_labels", npy("(80000000,)", "|u1", bytes(80_000_000)), zipfile.ZIP_DEFLATED
    )
    tracemalloc.start()
    try:
        with pytest.raises(UsageError, match=r"own\.npz has 7\d,\d{3} bytes .* unpacks to 80,000,\d{3}, .*np\.savez"):
            info_of(path)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("make", "why"),
    [(os.mkfifo, "FIFO"), (lambda path: path.symlink_to("/dev/zero"), "device"), (Path.mkdir, "directory")],
)
def test_a_path_that_is_no_file_is_not_opened(tmp_path: Path, make: Callable[[Path], object], why: str) -> None:
    make(tmp_path / "own.npz")
    with pytest.raises(UsageError, match=rf"own\.npz cannot be read .*{why}"):
        info_of(str(tmp_path / "own.npz"))


def test_a_compression_that_numpy_does_not_write_and_an_encrypted_file_are_refused(tmp_path: Path) -> None:
    path = replace(tmp_path / "own.npz", "train_labels", b"", zipfile.ZIP_LZMA)
    with pytest.raises(UsageError, match=r"own\.npz: train_images\.npy is compressed in a way"):
        info_of(path)
    encrypted = save_npz(tmp_path / "own.npz").read_bytes()
    flags = encrypted.index(b"PK\x01\x02") + 8
    (tmp_path / "own.npz").write_bytes(encrypted[:flags] + b"\x01" + encrypted[flags + 1 :])
    with pytest.raises(UsageError, match="encrypted"):
        info_of(path)


def test_the_names_in_a_file_are_shown_on_one_line(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "own.npz", "w") as archive:
        archive.writestr("train_image\x1b[2J\nasni: done", b"")
        archive.writestr("train_images", b"")
    with pytest.raises(UsageError, match="no array 'train_images'") as refusal:
        info_of(str(tmp_path / "own.npz"))
    assert str(refusal.value).isprintable()

"""A folder of pictures by class."""

import os
import shutil
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from asni.datasets import Dataset, Info, fingerprint, info_of, load, picture_folder
from asni.errors import AsniError, UsageError
from tests.datasets.made_data import save_folder, save_npz


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return save_folder(tmp_path / "animals")


def training(dataset: Dataset) -> tuple[torch.Tensor, torch.Tensor]:
    count = dataset.info.train
    return next(dataset.train_batches(torch.arange(count), count, augment=None, seed=0, epoch=0))


@pytest.mark.parametrize("test", ["test", "val"])
def test_pictures_are_read_class_by_class(tmp_path: Path, test: str) -> None:
    name = str(save_folder(tmp_path / "animals", test))
    dataset = load(name)
    assert info_of(name) == dataset.info == Info((1, 4, 3), 3, 12, 5)
    images, labels = training(dataset)
    assert labels.tolist() == [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2]
    [(_, tested)] = dataset.test_batches(10)
    assert tested.tolist() == [0, 0, 1, 1, 2]
    expected, _ = training(load(str(save_npz(tmp_path / "same.npz"))))
    torch.testing.assert_close(images, expected[torch.arange(12).reshape(4, 3).T.flatten()])


def test_a_folder_named_test_is_preferred_to_one_named_val(folder: Path) -> None:
    shutil.copytree(folder / "train", folder / "val")
    assert info_of(str(folder)).test == 5


def test_colours_are_channels(folder: Path) -> None:
    for number, path in enumerate(sorted(folder.rglob("*.png"))):
        Image.new("RGB", (3, 4), (number, 100 + number, 7)).save(path)
    images, _ = training(load(str(folder)))
    assert images.shape == (12, 3, 4, 3)
    assert torch.equal(images[:, 2], torch.zeros(12, 4, 3))
    torch.testing.assert_close(images[:, 0], images[:, 1])
    assert images[0, 0, 0, 0] < images[1, 0, 0, 0]


def test_pictures_are_resized_and_their_colours_converted_on_request(folder: Path) -> None:
    Image.new("RGB", (9, 9), (255, 0, 0)).save(folder / "train" / "cat" / "large.jpg")
    options = {"size": [2, 5], "channels": 3}
    assert info_of(str(folder), options) == load(str(folder), options).info == Info((3, 2, 5), 3, 13, 5)


def test_the_fingerprint_knows_names_sizes_and_classes(folder: Path) -> None:
    seen = [fingerprint(str(folder))]
    shutil.copytree(folder, folder.with_name("copy"))
    assert fingerprint(str(folder.with_name("copy"))) == seen[0]
    (folder / "train" / "cat" / "00.png").rename(folder / "train" / "dog" / "00.png")
    seen.append(fingerprint(str(folder)))
    Image.new("L", (3, 4)).save(folder / "test" / "dog" / "01.png")
    seen.append(fingerprint(str(folder)))
    assert len({str(each) for each in seen}) == 3


def test_hidden_files_and_texts_are_no_pictures(folder: Path) -> None:
    (folder / "train" / "cat" / ".DS_Store").touch()
    (folder / "train" / "cat" / "._00.png").touch()
    (folder / "train" / "cat" / "readme.txt").touch()
    (folder / "train" / ".cache").mkdir()
    assert load(str(folder)).info.train == 12


def picture(path: Path, mode: str = "L", size: tuple[int, int] = (3, 4)) -> None:
    path.parent.mkdir(exist_ok=True)
    Image.new(mode, size).save(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda at: shutil.rmtree(at), "no folder '.*animals'"),
        (lambda at: shutil.rmtree(at / "train"), "animals has no folder train"),
        (lambda at: shutil.rmtree(at / "test"), "animals has no folder test or val"),
        (lambda at: (at / "train" / "fox").mkdir(), r"train/fox has no pictures \(\.png, \.jpg, \.jpeg\)"),
        (lambda at: (at / "test" / "eel" / "02.png").unlink(), "test/eel has no pictures"),
        (lambda at: picture(at / "test" / "fox" / "00.png"), "animals/test has the class 'fox', but .*animals/train"),
        (lambda at: picture(at / "train" / "cat" / "00.bmp"), r"cat/00\.bmp is neither a PNG nor a JPEG"),
        (lambda at: picture(at / "train" / "dog" / "99.png", size=(5, 6)), r"dog/99\.png has 6x5 .* 4x3\..*size = "),
        (lambda at: picture(at / "test" / "cat" / "99.png", "RGB"), r"cat/99\.png is in colour, .*grey.*channels = 3"),
        (lambda at: picture(at / "train" / "dog" / "99.png", "I;16"), r"dog/99\.png has more than 8 bits"),
        (lambda at: (at / "train" / "dog" / "01.png").write_bytes(b"no picture"), r"dog/01\.png is damaged"),
    ],
)
def test_a_folder_that_cannot_be_trained_on_is_refused_by_file(folder: Path, change: Any, message: str) -> None:
    change(folder)
    with pytest.raises(AsniError, match=message):
        load(str(folder))


def test_one_class_is_too_few(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="train has 1 class folders"):
        info_of(str(save_folder(tmp_path / "animals", names=("cat", "cat", "cat"))))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sise": [8, 8]}, "sise: no such key; did you mean 'size'"),
        ({"size": [8]}, r"size = \[8\]: .* 2 items"),
        ({"size": [8, 0]}, r"size\.1 = 0: .* 1\b"),
        ({"channels": 2}, "channels = 2: .* 1 or 3"),
    ],
)
def test_a_wrong_option_is_named(folder: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=f"dataset_options for .*animals: {message}"):
        info_of(str(folder), options)


def test_a_folder_too_large_for_memory_is_refused_with_its_size(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"17 pictures .* 1\.1 GiB .*1 GiB.*size = .*asni\.datasets\.Dataset"):
        load(str(folder), {"size": [8000, 9000]})
    monkeypatch.setattr(picture_folder, "MOST_BYTES", 17 * 12 - 1)
    with pytest.raises(UsageError, match="17 pictures"):
        load(str(folder))
    monkeypatch.setattr(picture_folder, "MOST_BYTES", 17 * 12)
    assert load(str(folder)).info.train == 12


def test_transparency_and_palettes_become_colours(tmp_path: Path) -> None:
    folder = save_folder(tmp_path / "animals")
    for number, path in enumerate(sorted(folder.rglob("*.png"))):
        Image.fromarray(np.full((4, 3, 3), number, np.uint8)).convert("P" if number % 2 else "RGBA").save(path)
    assert load(str(folder)).info.shape == (3, 4, 3)


def png(width: int, height: int) -> bytes:
    """The file of a picture that is as large as its header says and holds nothing."""
    sizes = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", sizes), (b"IDAT", zlib.compress(b"")), (b"IEND", b""))
    packed = (
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(packed)


@pytest.mark.parametrize("side", [10_000, 13_000, 1_000_000])
def test_a_picture_of_too_many_pixels_is_refused_before_it_is_decoded(folder: Path, side: int) -> None:
    (folder / "train" / "cat" / "00.png").write_bytes(png(side, side))
    with pytest.raises(AsniError, match=r"00\.png .*pixels\) exceeds limit"):
        info_of(str(folder))


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (os.mkfifo, "it is a FIFO, not a file"),
        (lambda path: path.symlink_to("/dev/zero"), "it is a device, not a file"),
        (lambda path: path.symlink_to(path), "Too many levels"),
        (Path.mkdir, "Is a directory"),
    ],
)
def test_a_picture_that_is_no_file_is_not_opened(folder: Path, make: Callable[[Path], object], why: str) -> None:
    (folder / "train" / "dog" / "01.png").unlink()
    make(folder / "train" / "dog" / "01.png")
    with pytest.raises(AsniError, match=rf"01\.png .*\({why}"):
        load(str(folder))


@pytest.mark.parametrize("name", ["c\x1b[2Jat", "cat\nasni: done", "c\udc80at", "cat\u202e"])
def test_a_class_whose_name_is_no_line_of_text_is_refused(folder: Path, name: str) -> None:
    (folder / "train" / "cat").rename(folder / "train" / name)
    with pytest.raises(UsageError, match=r"train: the name 'c.* is not printable text") as refusal:
        load(str(folder))
    assert str(refusal.value).isprintable()


def test_a_picture_whose_name_is_no_line_of_text_is_refused(folder: Path) -> None:
    (folder / "train" / "cat" / "00.png").rename(folder / "train" / "cat" / "0\n0.png")
    with pytest.raises(UsageError, match=r"cat: the name '0\\n0\.png' is not printable text"):
        load(str(folder))


def test_names_of_any_language_and_stray_files_of_a_desktop_are_fine(tmp_path: Path) -> None:
    folder = save_folder(tmp_path / "数字\u3000実験", names=("می\u200cخ", "👩\u200d💻", "10\u00a0%"))
    pictures = folder / "train" / "10\u00a0%"
    next(pictures.glob("*.png")).rename(pictures / "Screenshot 10.15.00\u202fAM.png")
    for place in (folder / "train", pictures):
        (place / "Icon\r").touch()
    assert load(str(folder)).info.train == 12


def test_pictures_are_not_resized_beyond_any_picture(folder: Path) -> None:
    with pytest.raises(UsageError, match=r"size\.0 = 1000000: .* 65535"):
        info_of(str(folder), {"size": [1_000_000, 1]})

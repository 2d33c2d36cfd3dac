import io
import json
import os
import pickle
import struct
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from asni.datasets import get
from asni.datasets.cifar10 import BATCHES, PICKLES, PICTURES, RECORDS, read_pickle, read_picture, read_records
from asni.datasets.sources import Files
from asni.errors import AsniError

COUNT = 2
PIXELS = np.random.default_rng(0).integers(0, 256, (len(BATCHES), COUNT, 3072), dtype=np.uint8)
LABELS = np.arange(len(BATCHES) * COUNT, dtype=np.uint8).reshape(-1, COUNT) % 10


def records() -> Files:
    rows = np.concatenate([LABELS[..., None], PIXELS], axis=2)
    return {f"{name}.bin": rows[number].tobytes() for number, name in enumerate(BATCHES)}


def python2_pickle(pixels: bytes, labels: list[int]) -> bytes:
    """The opcodes that Python 2 wrote for {"labels": [...], "data": array}, as in cifar-10-python.tar.gz."""
    listed = b"".join(b"K" + bytes([label]) for label in labels)
    array = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\0\x85U\x01b\x87R"
    dtype = b"cnumpy\ndtype\nU\x02u1K\0K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\0tb"
    shape = b"M" + struct.pack("<H", len(labels)) + b"M\x00\x0c\x86"
    state = b"(K\x01" + shape + dtype + b"\x89T" + struct.pack("<i", len(pixels)) + pixels + b"tb"
    return b"\x80\x02}(U\x06labels](" + listed + b"eU\x04data" + array + state + b"u."


def pickles() -> Files:
    return {name: python2_pickle(PIXELS[n].tobytes(), LABELS[n].tolist()) for n, name in enumerate(BATCHES)}


def png(array: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(array).save(buffer, "PNG")
    return buffer.getvalue()


def pictures() -> Files:
    rows = PIXELS.reshape(-1, COUNT, 3, 1024).transpose(0, 1, 3, 2)
    files = {f"{name}.png": png(np.ascontiguousarray(rows[number])) for number, name in enumerate(BATCHES)}
    labels = LABELS.ravel().tolist()
    return files | {
        "train_lables.json": json.dumps(labels[:-COUNT]).encode(),
        "test_lables.json": json.dumps(labels[-COUNT:]).encode(),
    }


def test_the_three_formats_give_the_same_arrays() -> None:
    for arrays in (RECORDS.decode(records()), PICKLES.decode(pickles()), PICTURES.decode(pictures())):
        assert np.array_equal(arrays.train_images, PIXELS[:5].reshape(-1, 3, 32, 32))
        assert np.array_equal(arrays.train_labels, LABELS[:5].ravel())
        assert np.array_equal(arrays.test_images, PIXELS[5].reshape(-1, 3, 32, 32))
        assert np.array_equal(arrays.test_labels, LABELS[5])


class Hostile:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("exit 1",)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_that_names_anything_else_is_not_executed(protocol: int) -> None:
    with pytest.raises(AsniError, match=r"pickle.*\.system\b"):
        read_pickle("data_batch_1", pickle.dumps(Hostile(), protocol))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"garbage",
        pickle.dumps({b"labels": 10**12, b"data": 1}),
        python2_pickle(bytes(3071), [1]),
        python2_pickle(bytes(3072), [1])[:-100],
    ],
)
def test_a_damaged_pickle_is_named(data: bytes) -> None:
    with pytest.raises(AsniError, match="data_batch_1"):
        read_pickle("data_batch_1", data)


def test_cut_records_are_named() -> None:
    with pytest.raises(AsniError, match=r"data_batch_1\.bin.* 3,078 .* 3,073 "):
        read_records("data_batch_1.bin", bytes(3073 + 5))


def test_a_damaged_or_foreign_picture_is_named() -> None:
    whole = png(np.zeros((3, 1024, 3), np.uint8))
    for data in (
        b"",
        b"no picture",
        whole[:-40],
        png(np.zeros((3, 1023, 3), np.uint8)),
        png(np.zeros((3, 1024), np.uint8)),
    ):
        with pytest.raises(AsniError, match=r"test_batch\.png"):
            read_picture("test_batch.png", data)


@pytest.mark.parametrize("labels", [b"3", b"1e9", b"[256]", b'["a"]', b"{", b"null"])
def test_labels_that_are_no_bytes_are_named(labels: bytes) -> None:
    with pytest.raises(AsniError, match=r"train_lables\.json"):
        PICTURES.decode(pictures() | {"train_lables.json": labels})


def test_other_images_under_the_right_names_are_not_cifar10(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASNI_DATA", str(tmp_path / "cache"))
    (tmp_path / "mine").mkdir()
    for name, data in records().items():
        (tmp_path / "mine" / name).write_bytes(data)
    with pytest.raises(AsniError, match=r"cifar10 \(SHA-256"):
        get("cifar10", tmp_path / "mine")


def test_a_memo_larger_than_the_pickle_takes_no_memory() -> None:
    with pytest.raises(AsniError, match=r"batch is not a batch .*memo"):
        read_pickle("batch", b"\x80\x02]r\x00\x00\x00\x10.")


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        (b")" + b"".join(b"q%ch%c\x86" % (place, place) for place in range(60)), "shared values"),
        (b")" + 10**5 * b"\x85", "nests"),
    ],
    ids=["takes for ever to hash", "overflows the stack when it is hashed"],
)
def test_a_key_of_nested_tuples_is_not_hashed(key: bytes, reason: str) -> None:
    with pytest.raises(AsniError, match=f"batch is not a batch .*{reason}"):
        read_pickle("batch", b"\x80\x02}" + key + b"K\1s.")


def test_a_picture_of_more_rows_than_images_is_not_decoded() -> None:
    data = io.BytesIO()
    Image.new("RGB", (1024, 10_001)).save(data, "PNG")
    with pytest.raises(AsniError, match=r"batch has 10,001 rows, more than 10,000"):
        read_picture("batch", data.getvalue())

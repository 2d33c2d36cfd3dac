import gzip
from pathlib import Path

import pytest

from asni.datasets import get
from asni.datasets.mnist import FILES, read_idx
from asni.errors import AsniError


def idx(*sizes: int, content: bytes) -> bytes:
    return bytes([0, 0, 8, len(sizes)]) + b"".join(size.to_bytes(4, "big") for size in sizes) + content


def test_an_idx_file_of_images_keeps_its_shape() -> None:
    images = read_idx(idx(2, 1, 3, content=bytes([1, 2, 3, 4, 5, 6])))
    assert images.tolist() == [[[1, 2, 3]], [[4, 5, 6]]]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"hello",
        b"\0\0\x08",
        b"\0\0\x08\0",
        b"\0\0\x0d\x01\0\0\0\x01abcd",
        idx(2, content=b"a"),
        idx(2, content=b"abc"),
        idx(2**31, 2**31, 2**31, content=b"a"),
        idx(0, 2**32 - 1, 2**32 - 1, content=b""),
        idx(*65 * [1], content=b"a"),
        b"\0\0\x08\xff\0\0",
    ],
)
def test_what_is_no_idx_file_is_refused(data: bytes) -> None:
    with pytest.raises(AsniError, match="IDX"):
        read_idx(data)


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_files_with_the_right_names_and_other_content_are_not_mnist(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    monkeypatch.setenv("ASNI_DATA", str(tmp_path / "cache"))
    (tmp_path / "mine").mkdir()
    content = idx(1, content=b"a")
    for name in FILES:
        (tmp_path / "mine" / f"{name}{suffix}").write_bytes(gzip.compress(content) if suffix else content)
    with pytest.raises(AsniError, match=r"train-images-idx3-ubyte.*MD5"):
        get("mnist", tmp_path / "mine")
    (tmp_path / "mine" / f"t10k-labels-idx1-ubyte{suffix}").unlink()
    with pytest.raises(AsniError, match=f"missing t10k-labels-idx1-ubyte{suffix}$"):
        get("mnist", tmp_path / "mine")

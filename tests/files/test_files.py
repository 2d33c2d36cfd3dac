import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from asni.errors import AsniError
from asni.files import read_bounded, read_checkpoint, regular_size, write_checkpoint, write_tensors, write_text
from tests.full_disk import no_file_larger_than


@pytest.mark.parametrize("write", [write_checkpoint, write_tensors])
def test_a_full_disk_is_an_error_and_leaves_the_earlier_file(
    tmp_path: Path, write: Callable[[Path, dict[str, torch.Tensor]], None]
) -> None:
    path = tmp_path / "file"
    write_text(path, "earlier")
    with no_file_larger_than(10_000), pytest.raises(AsniError, match=rf"write {path}: .*File too large"):
        write(path, {"weight": torch.ones(100_000)})
    assert [each.name for each in tmp_path.iterdir()] == ["file"]
    assert path.read_text() == "earlier"


def test_a_file_in_the_place_of_a_directory_is_named(tmp_path: Path) -> None:
    write_text(tmp_path / "file", "")
    with pytest.raises(AsniError, match=rf"directory {tmp_path / 'file'}: File exists"):
        write_text(tmp_path / "file" / "below", "")


@pytest.mark.parametrize("length", [0, 10, 1000])
def test_a_checkpoint_that_was_cut_is_refused(tmp_path: Path, length: int) -> None:
    path = tmp_path / "checkpoint.pt"
    write_checkpoint(path, {"weight": torch.ones(1000)})
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(AsniError, match=rf"{path}.*damaged"):
        read_checkpoint(path)


def test_a_link_stays_and_what_it_points_to_is_written(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to("elsewhere/file")
    for content in ("first", "second"):
        write_text(tmp_path / "link", content)
        assert (tmp_path / "link").is_symlink()
        assert (tmp_path / "elsewhere" / "file").read_text() == content


def test_what_is_no_file_is_never_replaced_by_one(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(AsniError, match=rf"write {tmp_path / 'pipe'}.*device"):
        write_text(tmp_path / "pipe", "")
    assert (tmp_path / "pipe").is_fifo()


def test_a_file_has_the_rights_that_the_user_gives_to_files(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_text(tmp_path / "file", "")
    finally:
        os.umask(before)
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o640


def test_a_tensor_that_safetensors_cannot_store_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(AsniError, match=rf"{tmp_path / 'file'}.*safetensors"):
        write_tensors(tmp_path / "file", {"odd": torch.ones(2, dtype=torch.complex128)})


def test_what_may_never_end_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, kind in ((tmp_path / "pipe", "a FIFO, not a file"), (Path("/dev/zero"), "a device, not a file")):
        with pytest.raises(OSError, match=kind):
            read_bounded(path, 1000)
    with pytest.raises(IsADirectoryError):
        regular_size(tmp_path)


def test_a_file_is_refused_by_its_size_alone(tmp_path: Path) -> None:
    path = tmp_path / "huge"
    path.touch()
    os.truncate(path, 10**10)
    assert regular_size(path, 10**10) == 10**10
    with pytest.raises(OSError, match="10,000,000,000 bytes, more than the 1,000"):
        read_bounded(path, 1000)

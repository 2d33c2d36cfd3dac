from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from asni.errors import AsniError
from asni.files import read_checkpoint, read_json, write_checkpoint, write_tensors, write_text
from tests.full_disk import no_file_larger_than


@pytest.mark.parametrize("write", [write_checkpoint, write_tensors])
def test_a_disk_that_takes_no_more_is_told_and_leaves_the_earlier_file(
    tmp_path: Path, write: Callable[[Path, dict[str, torch.Tensor]], None]
) -> None:
    path = tmp_path / "file"
    write_text(path, "earlier")
    with no_file_larger_than(10_000), pytest.raises(AsniError, match=rf"^cannot write {path}: .*File too large"):
        write(path, {"weight": torch.ones(100_000)})
    assert [each.name for each in tmp_path.iterdir()] == ["file"]
    assert path.read_text() == "earlier"


def test_a_file_in_the_place_of_a_directory_is_named(tmp_path: Path) -> None:
    write_text(tmp_path / "file", "")
    with pytest.raises(AsniError, match=rf"^cannot make the directory {tmp_path / 'file'}: File exists"):
        write_text(tmp_path / "file" / "below", "")


@pytest.mark.parametrize("length", [0, 10, 1000])
def test_a_checkpoint_that_was_cut_is_refused(tmp_path: Path, length: int) -> None:
    path = tmp_path / "checkpoint.pt"
    write_checkpoint(path, {"weight": torch.ones(1000)})
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(AsniError, match=r"damaged\. Remove it to train from the start again"):
        read_checkpoint(path)


@pytest.mark.parametrize("content", ["", "{", "[1]", "3"])
def test_what_is_not_a_json_object_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "request.json"
    path.write_text(content)
    with pytest.raises(AsniError, match=rf"cannot read {path}"):
        read_json(path)

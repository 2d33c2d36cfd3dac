from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from asni.datasets.pictures import centre_box, random_box, read_picture
from asni.errors import AsniError

sides = st.integers(1, 700)


@given(width=sides, height=sides, seed=st.integers(0, 100))
def test_random_boxes_lie_inside_the_picture(width: int, height: int, seed: int) -> None:
    left, top, right, bottom = random_box(width, height, np.random.default_rng(seed))
    assert 0 <= left < right <= width
    assert 0 <= top < bottom <= height


@given(seed=st.integers(0, 1000))
def test_random_boxes_keep_the_papers_share_and_ratio(seed: int) -> None:
    left, top, right, bottom = random_box(500, 400, np.random.default_rng(seed))
    across, down = right - left, bottom - top
    assert 0.079 <= across * down / (500 * 400) <= 1
    assert 0.74 <= across / down <= 1.35


def test_a_picture_too_narrow_for_any_box_is_cut_in_the_centre() -> None:
    assert random_box(1000, 30, np.random.default_rng(0)) == (480, 0, 520, 30)


def test_the_centre_is_seven_eighths_of_the_shorter_side() -> None:
    assert centre_box(400, 300) == (68.75, 18.75, 331.25, 281.25)


@pytest.mark.parametrize("mode", ["RGB", "L", "CMYK"])
def test_every_colour_mode_becomes_three_channels(tmp_path: Path, mode: str) -> None:
    grey = Image.new("L", (300, 260), 100)
    grey.convert(mode).save(tmp_path / "x.JPEG")
    pixels = read_picture(tmp_path / "x.JPEG", None)
    assert pixels.shape == (3, 224, 224)
    assert np.abs(pixels.astype(int) - 100).max() <= 3


def test_a_png_under_the_name_of_a_jpeg_is_read(tmp_path: Path) -> None:
    Image.new("RGB", (300, 260), (1, 2, 3)).save(tmp_path / "x.JPEG", "PNG")
    assert read_picture(tmp_path / "x.JPEG", None)[:, 0, 0].tolist() == [1, 2, 3]


def test_half_of_the_pictures_are_mirrored(tmp_path: Path) -> None:
    ramp = np.broadcast_to(np.arange(256, dtype=np.uint8)[:, None], (256, 256, 3))
    Image.fromarray(np.ascontiguousarray(ramp)).save(tmp_path / "x.JPEG")
    rows = [read_picture(tmp_path / "x.JPEG", np.random.default_rng(seed))[0, 0].astype(int) for seed in range(100)]
    assert 35 <= sum(row[0] > row[-1] for row in rows) <= 65


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (99, 99, 3), np.uint8)).save(tmp_path / "sound.JPEG")
    sound = (tmp_path / "sound.JPEG").read_bytes()
    for content in (b"", b"no picture", sound[: len(sound) // 2]):
        (tmp_path / "broken.JPEG").write_bytes(content)
        with pytest.raises(AsniError, match=r"broken\.JPEG"):
            read_picture(tmp_path / "broken.JPEG", None)

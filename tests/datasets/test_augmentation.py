import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from asni.datasets.augmentation import CropFlip

IMAGES = np.arange(1, 1 + 6 * 2 * 5 * 5, dtype=np.uint16).astype(np.uint8).reshape(6, 2, 5, 5)


def one(row: int, column: int, flip: bool) -> CropFlip:
    return CropFlip(np.array([row], np.uint8), np.array([column], np.uint8), np.array([flip]))


def test_the_middle_offset_is_the_image_itself() -> None:
    assert np.array_equal(one(4, 4, False).apply(IMAGES[:1], np.array([0])), IMAGES[:1])


def test_an_offset_moves_the_image_and_a_flip_mirrors_the_crop() -> None:
    moved = one(5, 3, False).apply(IMAGES[:1], np.array([0]))
    assert np.array_equal(moved[..., :4, 1:], IMAGES[:1, :, 1:, :4])
    assert not moved[..., 4, :].any()
    assert not moved[..., 0].any()
    assert np.array_equal(one(5, 3, True).apply(IMAGES[:1], np.array([0])), moved[..., ::-1])


@given(seed=st.integers(0, 1000))
def test_each_image_gets_the_draw_of_its_position(seed: int) -> None:
    draws = CropFlip.draw(10, seed=seed, epoch=2)
    positions = np.array([9, 0, 3, 3, 5, 1])
    together = draws.apply(IMAGES, positions)
    for image, position, result in zip(IMAGES, positions, together, strict=True):
        alone = one(int(draws.rows[position]), int(draws.columns[position]), bool(draws.flips[position]))
        assert np.array_equal(alone.apply(image[None], np.array([0]))[0], result)


def test_every_offset_and_both_flips_are_drawn_equally_often() -> None:
    draws = CropFlip.draw(90_000, seed=0, epoch=0)
    for offsets in (draws.rows, draws.columns):
        assert np.all(np.abs(np.bincount(offsets, minlength=9) - 10_000) < 500)
    assert abs(draws.flips.mean() - 0.5) < 0.01
    assert abs(np.corrcoef(draws.rows, draws.columns)[0, 1]) < 0.02

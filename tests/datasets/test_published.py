import logging
import os
import re
from collections.abc import Callable
from contextlib import ExitStack, chdir
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from asni.datasets.cache import cache_folder
from asni.datasets.memory import Arrays
from asni.datasets.published import Format, Home, Published, digest
from asni.datasets.sources import Files
from asni.errors import AsniError, UsageError
from tests.full_disk import no_file_larger_than

CONTENT = bytes(range(240))


def decode(files: Files) -> Arrays:
    # Transposed on purpose: what is kept must not depend on how a decoder lays out its memory.
    images = np.frombuffer(files["images"], np.uint8).reshape(20, 3, 2, 2).transpose(0, 1, 3, 2)
    labels = np.arange(20, dtype=np.uint8)
    return Arrays(images[:15], labels[:15], images[15:], labels[15:])


def unreachable() -> Files:
    raise AsniError("Name or service not known")


def made(*homes: Home) -> Published:
    content = digest(decode({"images": CONTENT}))
    return Published("made", (Format({"images": 240}, decode),), ("made-*.tgz",), homes, "made-data", content)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and no npm."""
    monkeypatch.setenv("ASNI_DATA", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path / "cache" / "made"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "mine" / "deep").mkdir(parents=True)
    (tmp_path / "mine" / "deep" / "images").write_bytes(CONTENT)
    return tmp_path / "mine"


def test_a_home_folder_that_does_not_exist_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASNI_DATA", "~nobody-of-that-name/x")
    with pytest.raises(UsageError, match=r"^ASNI_DATA = '~nobody-of-that-name/x': "):
        made().get()


@pytest.mark.parametrize(("make", "why"), [(os.mkfifo, "FIFO"), (Path.mkdir, "directory")])
def test_a_cache_that_is_no_file_is_not_opened(cache: Path, make: Callable[[Path], None], why: str) -> None:
    cache.mkdir(parents=True)
    make(cache / "data.safetensors")
    with pytest.raises(AsniError, match=rf"data\.safetensors: .*{why}.*Remove it"):
        made().get()


def test_a_cache_of_numbers_that_numpy_lacks_is_fetched_again(cache: Path, folder: Path) -> None:
    cache.mkdir(parents=True)
    eight_bits = {name: torch.zeros(1, dtype=torch.float8_e4m3fn) for name in Arrays.__dataclass_fields__}
    save_file(eight_bits, cache / "data.safetensors")
    assert made().get(folder) == cache


def test_a_folder_of_fifos_holds_no_files_however_deeply_it_is_nested(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    os.mkfifo(tmp_path / "mine" / "images")
    os.mkfifo(tmp_path / "mine" / "made-1.tgz")
    with pytest.raises(AsniError, match="missing images"):
        made().get(tmp_path / "mine")
    deep = f"{tmp_path / 'mine'}{1000 * '/n'}"
    with ExitStack() as way_back:
        way_back.enter_context(chdir(tmp_path / "mine"))
        for _ in range(1000):
            Path("n").mkdir()
            way_back.enter_context(chdir("n"))
    try:
        with pytest.raises(AsniError, match=f"cannot load made from {tmp_path / 'mine'}: "):
            made().get(tmp_path / "mine")
    finally:
        # Python 3.11 could not remove it either.
        os.removedirs(deep)


def test_the_cache_is_below_asni_data_or_the_users_cache(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cache_folder("made") == cache
    monkeypatch.delenv("ASNI_DATA")
    assert cache_folder("made").parts[-2:] == ("asni", "made")


def test_what_a_killed_process_had_begun_to_write_is_removed(cache: Path, folder: Path) -> None:
    cache.mkdir(parents=True)
    (cache / ".data.safetensors.0123abcd").write_text("half of")
    made().get(folder)
    assert sorted(path.name for path in cache.iterdir()) == ["data.safetensors", "lock"]


def test_what_was_fetched_once_is_kept_bit_for_bit(cache: Path, folder: Path) -> None:
    assert made().get(folder) == cache
    (folder / "deep" / "images").unlink()
    kept = made().arrays()
    assert np.array_equal(kept.train_images, decode({"images": CONTENT}).train_images)
    assert sorted(path.name for path in cache.iterdir()) == ["data.safetensors", "lock"]


def test_homes_are_tried_in_turn_and_a_wrong_content_is_not_taken(cache: Path) -> None:
    wrong = Home("https://wrong", lambda: {"images": CONTENT[::-1]})
    right = Home("https://right", lambda: {"images": CONTENT})
    made(Home("https://away", unreachable), wrong, right).get()
    assert (cache / "data.safetensors").exists()


def test_when_all_sources_fail_each_says_why_and_nothing_is_left(cache: Path) -> None:
    wrong = Home("https://wrong", lambda: {"images": CONTENT[::-1]})
    with pytest.raises(AsniError) as caught:
        made(Home("https://away", unreachable), wrong, Home("https://half", dict)).get()
    first, away, other, half, npm, advice = str(caught.value).splitlines()
    assert "made" in first
    assert away == "  https://away: Name or service not known"
    assert re.match("  https://wrong: .*made .*SHA-256 ", other)
    assert re.match("  https://half: missing .*images$", half)
    assert re.match("  .*made-data: npm .*installed", npm)
    assert advice.endswith("asni data get made --from FOLDER")
    assert [path.name for path in cache.iterdir()] == ["lock"]


def test_a_folder_without_the_data_is_an_error_even_if_a_home_has_it(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    published = made(Home("https://right", lambda: {"images": CONTENT}))
    with pytest.raises(AsniError, match=r"made .*empty: missing images"):
        published.get(tmp_path / "empty")
    with pytest.raises(AsniError, match="nowhere is not a folder"):
        published.get(tmp_path / "nowhere")


def test_a_folder_that_is_not_there_is_an_error_even_if_the_data_is(tmp_path: Path, folder: Path) -> None:
    made().get(folder)
    with pytest.raises(AsniError, match="nowhere is not a folder"):
        made().get(tmp_path / "nowhere")


def test_a_damaged_cache_is_noticed_and_fetched_again(
    cache: Path, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kept = made().get(folder) / "data.safetensors"
    sound = kept.read_bytes()
    for damaged in (sound[:-1], sound[:-1] + b"\0", b"", b"no tensors"):
        kept.write_bytes(damaged)
        with caplog.at_level(logging.WARNING):
            made().get(folder)
        assert "is damaged" in caplog.text
        assert kept.read_bytes() == sound


def test_a_disk_that_cannot_take_the_data_leaves_nothing_behind(cache: Path, folder: Path) -> None:
    with no_file_larger_than(100), pytest.raises(AsniError, match=rf"made .*{cache}.*File too large.*ASNI_DATA"):
        made().get(folder)
    assert [path.name for path in cache.iterdir()] == ["lock"]


def test_a_cache_that_cannot_be_made_is_named(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "cache").write_text("a file where the folder should be")
    with pytest.raises(AsniError, match=rf"made .*{tmp_path / 'cache'}.*ASNI_DATA"):
        made().get(folder)

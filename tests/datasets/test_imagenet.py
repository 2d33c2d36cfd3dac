import json
import logging
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from asni.datasets import Info, get, load
from asni.datasets.imagenet import ImageNet
from asni.datasets.order import epoch_order
from asni.errors import AsniError, UsageError

CLASSES = ("n01440764", "n01443537", "n02119789")
TRUTH = "ILSVRC2012_validation_ground_truth.txt"


def jpeg(path: Path, shade: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    noise = np.random.default_rng(shade).integers(-20, 21, (60, 80, 3))
    Image.fromarray((noise + shade).clip(0, 255).astype(np.uint8)).save(path, "JPEG")


def flatten(folder: Path) -> None:
    """From val/<class>/ to the flat layout: the pictures of the last class come first."""
    for number, name in enumerate(reversed(CLASSES), start=1):
        (picture,) = (folder / "val" / name).iterdir()
        picture.rename(folder / "val" / f"ILSVRC2012_val_{number:08}.JPEG")
        (folder / "val" / name).rmdir()


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Four training pictures and one for validation in each of three classes, shaded by class."""
    monkeypatch.setenv("ASNI_DATA", str(tmp_path / "cache"))
    for label, name in enumerate(CLASSES):
        for number in range(4):
            jpeg(tmp_path / "mine" / "train" / name / f"{name}_{number}.JPEG", 60 + 60 * label + number)
        jpeg(tmp_path / "mine" / "val" / name / f"ILSVRC2012_val_{label}.JPEG", 60 + 60 * label)
    return tmp_path / "mine"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("map_clsloc.txt", "", r"map_clsloc\.txt numbers no classes"),
        ("map_clsloc.txt", f"n01440764 {5000 * '9'} tench\n", r"map_clsloc\.txt numbers no classes"),
        (TRUTH, f"{5000 * '9'}\n1\n1\n", rf"{TRUTH}, line 1: label 9{{200}}\.\.\. is out of range"),
        (TRUTH, "\x1b[2J\n1\n1\n", rf"{TRUTH}, line 1: label '\\x1b\[2J' is out of range"),
        ("LOC_val_solution.csv", "a,b\n" + "".join(f"ILSVRC2012_val_{n:08},\x1b[2J 1\n" for n in (1, 2, 3)), r"'\\x1b"),
    ],
)
def test_label_files_of_anything_are_refused_by_name(folder: Path, name: str, content: str, message: str) -> None:
    flatten(folder)
    (folder / TRUTH).write_text("3\n2\n1\n")
    (folder / name).write_text(content)
    with pytest.raises(AsniError, match=message) as refusal:
        get("imagenet", folder)
    assert str(refusal.value).isprintable()


def test_a_label_file_without_end_is_not_read(folder: Path) -> None:
    flatten(folder)
    (folder / TRUTH).touch()
    os.truncate(folder / TRUTH, 1 << 40)
    with pytest.raises(AsniError, match=rf"{TRUTH} \(it has 1,099,511,627,776 bytes, more than"):
        get("imagenet", folder)


@pytest.mark.parametrize(
    "write",
    [
        os.mkfifo,
        lambda path: path.symlink_to("/dev/zero"),
        lambda path: path.write_text(100_000 * "["),
        lambda path: path.write_text(5000 * "9"),
        lambda path: path.write_text('{"folder": 3, "train": {"a": 5}, "val": {"a": 5}}'),
        lambda path: path.write_text('{"folder": null, "train": [], "val": {}, "stamps": {}}'),
    ],
)
def test_a_cache_of_anything_is_as_good_as_none(folder: Path, tmp_path: Path, write: Callable[[Path], object]) -> None:
    (tmp_path / "cache" / "imagenet").mkdir(parents=True)
    write(tmp_path / "cache" / "imagenet" / "index.json")
    assert ImageNet(folder).info.classes == 3
    write(tmp_path / "cache" / "imagenet" / "location.json")
    with pytest.raises(AsniError, match="ImageNet was not found"):
        get("imagenet")


def test_an_index_whose_splits_differ_is_made_again(folder: Path, tmp_path: Path) -> None:
    index = tmp_path / "cache" / "imagenet" / "index.json"
    ImageNet(folder)
    content = json.loads(index.read_text())
    del content["val"][CLASSES[0]]
    index.write_text(json.dumps(content))
    assert ImageNet(folder).info == Info((3, 224, 224), 3, 12, 3)


def test_a_picture_that_is_a_fifo_is_not_opened(folder: Path) -> None:
    (picture,) = (folder / "val" / CLASSES[0]).iterdir()
    picture.unlink()
    os.mkfifo(picture)
    with pytest.raises(AsniError, match=rf"{picture.name} .*\(it is a FIFO, not a file\)"):
        list(ImageNet(folder, workers=0).test_batches(2))


def epoch(dataset: ImageNet, **changed: int) -> list[tuple[Tensor, Tensor]]:
    order = epoch_order(12, 5, 3, seed=0, epoch=0)
    options = {"seed": 0, "epoch": 0} | changed
    return list(dataset.train_batches(order, 5, augment="resized-crop-flip", **options))


def same(ours: list[tuple[Tensor, Tensor]], theirs: list[tuple[Tensor, Tensor]]) -> bool:
    return all(torch.equal(a, c) and torch.equal(b, d) for (a, b), (c, d) in zip(ours, theirs, strict=True))


def labels_by_shade(dataset: ImageNet) -> bool:
    """Whether every test picture has the label of its shade."""
    batches = list(dataset.test_batches(2))
    shades = torch.cat([images.mean((1, 2, 3)) for images, _ in batches])
    labels = torch.cat([labels for _, labels in batches])
    return torch.equal(shades.argsort(), labels.argsort()) and labels.sort().values.tolist() == [0, 1, 2]


def test_a_folder_is_remembered_and_not_copied(folder: Path, tmp_path: Path) -> None:
    assert get("imagenet", folder) == folder == get("imagenet")
    assert load("imagenet").info == Info((3, 224, 224), 3, 12, 3)
    kept = sorted(path.name for path in (tmp_path / "cache" / "imagenet").iterdir())
    assert kept == ["index.json", "location.json"]


def test_the_cache_folder_itself_may_hold_the_pictures(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    folder.rename(tmp_path / "cache" / "imagenet")
    assert load("imagenet").info.train == 12


def test_an_unknown_place_says_what_to_do() -> None:
    with pytest.raises(AsniError, match=r"image-net\.org.*train/.*asni data get imagenet --from FOLDER"):
        load("imagenet")


def test_batches_hold_normalised_pictures_and_their_labels(folder: Path) -> None:
    batches = epoch(ImageNet(folder, workers=0))
    assert [len(labels) for _, labels in batches] == [5, 5, 2]
    for images, labels in batches:
        assert images.shape[1:] == (3, 224, 224)
        assert (images.dtype, labels.dtype) == (torch.float32, torch.int64)
        shades = (images[:, 0].mean((1, 2)) * 0.229 + 0.485) * 255
        assert torch.equal(((shades - 30) / 60).long(), labels)


def test_workers_change_nothing_and_leave_the_global_generator_alone(folder: Path) -> None:
    alone = epoch(ImageNet(folder, workers=0))
    state = torch.get_rng_state()
    assert same(alone, epoch(ImageNet(folder, workers=2)))
    assert torch.equal(state, torch.get_rng_state())


def test_draws_depend_on_seed_epoch_and_position_only(folder: Path) -> None:
    dataset = ImageNet(folder, workers=0)
    whole = epoch(dataset)
    assert same(whole[1:], epoch(dataset, start=1))
    assert not same(whole, epoch(dataset, epoch=1))
    ranks = [epoch(dataset, rank=rank, world=2) for rank in range(2)]
    assert same(whole, [(torch.cat([a, c]), torch.cat([b, d])) for (a, b), (c, d) in zip(*ranks, strict=True)])


def test_a_share_may_be_empty(folder: Path) -> None:
    sizes = [len(labels) for _, labels in ImageNet(folder, workers=0).test_batches(2, rank=0, world=2)]
    assert sizes == [1, 0]


def test_an_unknown_augmentation_is_refused(folder: Path) -> None:
    with pytest.raises(UsageError, match="resized-crop-flip"):
        ImageNet(folder).train_batches(torch.arange(12), 5, augment="crop-flip", seed=0, epoch=0)


def test_a_broken_training_picture_is_named_once_and_left_out(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    broken = folder / "train" / CLASSES[1] / f"{CLASSES[1]}_2.JPEG"
    broken.write_bytes(broken.read_bytes()[:500])
    dataset = ImageNet(folder, workers=2)
    assert sum(len(labels) for _, labels in epoch(dataset)) == 11
    epoch(dataset)
    assert sum(str(broken) in message for message in caplog.messages) == 1


def test_a_broken_test_picture_is_an_error(folder: Path) -> None:
    (folder / "val" / CLASSES[0] / "ILSVRC2012_val_0.JPEG").write_bytes(b"")
    with pytest.raises(AsniError, match=r"ILSVRC2012_val_0\.JPEG"):
        list(ImageNet(folder, workers=1).test_batches(3))


def test_a_batch_of_broken_pictures_is_an_error(folder: Path) -> None:
    for picture in (folder / "train").rglob("*.JPEG"):
        picture.write_bytes(b"")
    with pytest.raises(AsniError, match=r"batch.*\.JPEG"):
        epoch(ImageNet(folder, workers=0))


def test_the_scan_is_kept_until_a_folder_changes(folder: Path, tmp_path: Path) -> None:
    first, kept = ImageNet(folder), tmp_path / "cache" / "imagenet" / "index.json"
    os.utime(kept, (0, 0))
    assert ImageNet(folder).info == first.info
    assert kept.stat().st_mtime == 0, "an unchanged folder was scanned again"
    jpeg(folder / "train" / CLASSES[0] / "new.JPEG", 60)
    assert ImageNet(folder).info.train == 13
    shutil.rmtree(folder / "train" / CLASSES[2])
    shutil.rmtree(folder / "val" / CLASSES[2])
    assert ImageNet(folder).info.classes == 2


def test_a_damaged_index_is_made_again(folder: Path, tmp_path: Path) -> None:
    ImageNet(folder)
    for content in ("", "{", "[]", '{"train": 1}'):
        (tmp_path / "cache" / "imagenet" / "index.json").write_text(content)
        assert ImageNet(folder).info.train == 12


def test_other_numbers_of_classes_give_a_warning(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        ImageNet(folder)
    assert re.search(f"{folder} .* 3 .* 1,000", caplog.text)


def test_labels_of_a_flat_folder_come_from_the_solution_file(folder: Path) -> None:
    flatten(folder)
    rows = [f"ILSVRC2012_val_{n:08},{name} 85 1 499 272" for n, name in enumerate(reversed(CLASSES), start=1)]
    (folder / "LOC_val_solution.csv").write_text("\n".join(["ImageId,PredictionString", *reversed(rows), ""]))
    assert labels_by_shade(ImageNet(folder, workers=0))


@pytest.mark.parametrize("place", [".", "val", "ILSVRC2012_devkit_t12/data"])
def test_labels_of_a_flat_folder_come_from_the_truth_file(folder: Path, place: str) -> None:
    flatten(folder)
    (folder / place).mkdir(parents=True, exist_ok=True)
    (folder / place / TRUTH).write_text("3\n2\n1\n")
    assert labels_by_shade(ImageNet(folder, workers=0))


def test_the_numbers_of_the_truth_file_are_those_of_the_kit(folder: Path) -> None:
    flatten(folder)
    (folder / TRUTH).write_text("1\n7\n9\n")
    (folder / "map_clsloc.txt").write_text(f"{CLASSES[2]} 1 kit_fox\n{CLASSES[1]} 7 goldfish\n{CLASSES[0]} 9 tench\n")
    assert labels_by_shade(ImageNet(folder, workers=0))


def test_a_thousand_classes_are_never_numbered_by_guess(folder: Path) -> None:
    flatten(folder)
    (folder / TRUTH).write_text("3\n2\n1\n")
    for number in range(997):
        (folder / "train" / f"n1{number:07}").mkdir()
    with pytest.raises(AsniError, match=r"map_clsloc\.txt.*LOC_val_solution\.csv"):
        ImageNet(folder)


@pytest.mark.parametrize(
    ("truth", "message"),
    [
        ("1\n4\n2\n", r"line 2: label 4\b.* 3\b"),
        ("0\n1\n2\n", r"line 1: label 0\b.* 3\b"),
        ("1\n2\nx\n", r"line 3: label x\b"),
        ("1\n2\n", r" 2 labels.* 3\b"),
    ],
)
def test_wrong_labels_are_refused(folder: Path, truth: str, message: str) -> None:
    flatten(folder)
    (folder / TRUTH).write_text(truth)
    with pytest.raises(AsniError, match=message):
        ImageNet(folder)


def test_solutions_that_do_not_fit_are_refused(folder: Path) -> None:
    flatten(folder)
    (folder / "LOC_val_solution.csv").write_text("ImageId,PredictionString\nILSVRC2012_val_00000001,n01440764 1\n")
    with pytest.raises(AsniError, match=r"LOC_val_solution\.csv.*ILSVRC2012_val_00000002"):
        ImageNet(folder)
    rows = "\n".join(f"ILSVRC2012_val_{n:08},n09999999 1" for n in (1, 2, 3))
    (folder / "LOC_val_solution.csv").write_text(f"ImageId,PredictionString\n{rows}\n")
    with pytest.raises(AsniError, match=r"class n09999999\b.*train.*n09999999"):
        ImageNet(folder)


def test_incomplete_folders_are_refused(folder: Path) -> None:
    shutil.rmtree(folder / "train" / CLASSES[1])
    with pytest.raises(AsniError, match=rf"train .*missing 1 class folders.*{CLASSES[1]}"):
        ImageNet(folder)
    (folder / "train" / CLASSES[1]).mkdir()
    with pytest.raises(AsniError, match=rf"1 class folders of .*train .*{CLASSES[1]}"):
        ImageNet(folder)
    shutil.rmtree(folder / "val" / CLASSES[0])
    with pytest.raises(AsniError, match=rf"val .*missing 1 class folders.*{CLASSES[0]}"):
        ImageNet(folder)


@pytest.mark.parametrize("part", ["train", "val"])
def test_a_part_that_is_missing_or_empty_is_refused(folder: Path, part: str) -> None:
    shutil.rmtree(folder / part)
    with pytest.raises(AsniError, match=rf"no folder {part}\b.*train/<class>"):
        ImageNet(folder)
    (folder / part).mkdir()
    with pytest.raises(AsniError, match=rf"{folder / part} .*train/<class>"):
        ImageNet(folder)


def test_a_flat_folder_without_labels_says_which_file_it_needs(folder: Path) -> None:
    flatten(folder)
    with pytest.raises(AsniError, match=rf"val .*LOC_val_solution\.csv.*{TRUTH}"):
        ImageNet(folder)

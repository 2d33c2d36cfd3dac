"""The images of an ImageNet folder and their classes; scanned once, then cached until the folder changes.

Labels are the positions of the classes among the sorted folders of `train/`.
"""

import json
import os
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from asni.display import on_stderr
from asni.errors import AsniError, shown
from asni.files import read_bounded, write_text

ENDINGS = (".jpeg", ".jpg")
LAYOUT = "train/<class>/*.JPEG, and val/<class>/*.JPEG or val/*.JPEG with a label file"
SOLUTION = "LOC_val_solution.csv"
TRUTH = "ILSVRC2012_validation_ground_truth.txt"
NUMBERING = "map_clsloc.txt"
CLASS_NUMBER = r"[0-9]{1,9}"
PUBLISHED_CLASSES = 1_000
MOST_LABEL_BYTES = 64 << 20
MOST_INDEX_BYTES = 1 << 30

ByClass = dict[str, list[str]]


@dataclass(frozen=True)
class Split:
    """Paths relative to the folder, as fixed-length bytes so that worker processes share them, and labels."""

    paths: NDArray[np.bytes_]
    labels: NDArray[np.int64]

    @classmethod
    def of(cls, pictures: ByClass, classes: Sequence[str]) -> "Split":
        """Join the images in class order."""
        paths = [os.fsencode(path) for name in classes for path in pictures[name]]
        return cls(np.array(paths), np.repeat(np.arange(len(classes)), [len(pictures[name]) for name in classes]))


@dataclass(frozen=True)
class Index:
    """The classes of a folder, and its images for training and test."""

    classes: tuple[str, ...]
    train: Split
    test: Split


def find_index(folder: Path, kept: Path) -> Index:
    """The index of a folder: read from the file `kept` if nothing has changed, else built and saved there."""
    train, test = _read(folder, kept) or _scan(folder, kept)
    classes = tuple(sorted(train))
    return Index(classes, Split.of(train, classes), Split.of(test, classes))


def _scan(folder: Path, kept: Path) -> tuple[ByClass, ByClass]:
    try:
        train = _by_folder(folder, "train")
        test = _by_folder(folder, "val") or _by_labels(folder, sorted(train))
    except OSError as error:
        raise AsniError(f"cannot read {shown(error.filename)} ({error.strerror})") from error
    _check(folder, train, test)
    _write(folder, kept, train, test)
    return train, test


def _by_folder(folder: Path, part: str) -> ByClass:
    if not (folder / part).is_dir():
        raise AsniError(f"{folder} has no folder {part}; expected {LAYOUT}")
    names = sorted(entry.name for entry in os.scandir(folder / part) if entry.is_dir())
    found = on_stderr().track(names, f"{part}: scanning images")
    return {name: _pictures(folder, f"{part}/{name}") for name in found}


def _pictures(folder: Path, place: str) -> list[str]:
    names = (entry.name for entry in os.scandir(folder / place))
    return sorted(f"{place}/{name}" for name in names if name.lower().endswith(ENDINGS))


def _by_labels(folder: Path, classes: list[str]) -> ByClass:
    pictures = _pictures(folder, "val")
    if not classes or not pictures:
        return {}
    solution, truth = _beside(folder, SOLUTION), _beside(folder, TRUTH)
    if solution is not None:
        names = _from_solution(solution, pictures)
    elif truth is not None:
        names = _from_truth(truth, pictures, _numbering(folder, classes))
    else:
        raise AsniError(
            f"{folder / 'val'} has neither class folders nor labels; put {SOLUTION} or {TRUTH} into {folder}"
        )
    found: ByClass = {name: [] for name in classes}
    for picture, name in zip(pictures, names, strict=True):
        if name not in found:
            raise AsniError(
                f"{shown(picture)} has class {shown(name)}, but {folder / 'train'} has no folder {shown(name)}"
            )
        found[name].append(picture)
    return found


def _from_solution(solution: Path, pictures: list[str]) -> list[str]:
    """Kaggle's file: lines of `ILSVRC2012_val_00000001,n01751748 <a box>`, in any order."""
    rows = (line.split(",", 1) for line in _text(solution).splitlines()[1:] if "," in line)
    named = {picture: answer.split(" ")[0] for picture, answer in rows}
    try:
        return [named[Path(picture).stem] for picture in pictures]
    except KeyError as error:
        raise AsniError(f"{solution} has no line for {shown(error.args[0])}") from error


def _from_truth(truth: Path, pictures: list[str], numbering: dict[int, str]) -> list[str]:
    """The development kit's file: line k is the class number of the k-th image by name."""
    lines = _text(truth).split()
    if len(lines) != len(pictures):
        raise AsniError(f"{truth} has {len(lines)} labels, but val has {len(pictures)} images")
    for line, label in enumerate(lines, start=1):
        if not re.fullmatch(CLASS_NUMBER, label) or int(label) not in numbering:
            raise AsniError(f"{truth}, line {line}: label {shown(label)} is out of range, 1 to {max(numbering)}")
    return [numbering[int(label)] for label in lines]


def _numbering(folder: Path, classes: list[str]) -> dict[int, str]:
    """The class of each number in the truth file: the kit has its own numbering, not that of the sorted classes."""
    table = _beside(folder, NUMBERING)
    if table is not None:
        rows = re.findall(rf"^(\S+) +({CLASS_NUMBER})\b", _text(table), re.MULTILINE)
        if not rows:
            raise AsniError(f"{table} numbers no classes; expected lines such as 'n02119789 1 kit_fox'")
        return {int(number): name for name, number in rows}
    if len(classes) == PUBLISHED_CLASSES:
        raise AsniError(
            f"{TRUTH} uses the class numbers of ImageNet's development kit; put its {NUMBERING} "
            f"(or {SOLUTION} instead of both) into {folder}"
        )
    # The kit does not number other sets of classes; there, the sorted classes are numbered from 1.
    return dict(enumerate(classes, start=1))


def _text(path: Path) -> str:
    try:
        return read_bounded(path, MOST_LABEL_BYTES).decode(errors="replace")
    except OSError as error:
        raise AsniError(f"cannot read {path} ({error.strerror})") from error


def _beside(folder: Path, name: str) -> Path | None:
    return next((place / name for place in _label_places(folder) if (place / name).is_file()), None)


def _label_places(folder: Path) -> list[Path]:
    return [folder, folder / "val", *sorted(folder.glob("*devkit*/data"))]


def _check(folder: Path, train: ByClass, test: ByClass) -> None:
    if not train:
        raise AsniError(f"{folder / 'train'} has no class folders; expected {LAYOUT}")
    if not any(test.values()):
        raise AsniError(f"{folder / 'val'} has no images; expected {LAYOUT}")
    for part, here, there in (("train", train, test), ("val", test, train)):
        if missing := sorted(there.keys() - here.keys()):
            raise AsniError(
                f"{folder / part} is missing {len(missing)} class folders that the other split has: {_some(missing)}"
            )
    if empty := sorted(name for name, pictures in train.items() if not pictures):
        raise AsniError(f"{len(empty)} class folders of {folder / 'train'} have no images: {_some(empty)}")


def _some(names: list[str]) -> str:
    return ", ".join(map(shown, names[:5])) + (", ..." if len(names) > 5 else "")


def _stamps(folder: Path, classes: Iterable[str]) -> dict[str, int | None]:
    """Modification times of all that an index depends on; a folder's changes when a file is added or removed."""
    folders = [f"{part}{name}" for part in ("train", "val") for name in ("", *(f"/{name}" for name in classes))]
    labels = [place / name for place in _label_places(folder) for name in (SOLUTION, TRUTH, NUMBERING)]
    return {str(path): _changed(path) for path in (*(folder / name for name in folders), *labels)}


def _changed(path: Path) -> int | None:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return None


def _read(folder: Path, kept: Path) -> tuple[ByClass, ByClass] | None:
    try:
        content = json.loads(read_bounded(kept, MOST_INDEX_BYTES))
        train, test = content["train"], content["val"]
        sound = train.keys() == test.keys() and all(train.values()) and _are_paths(train) and _are_paths(test)
        return (train, test) if sound and content["stamps"] == _stamps(folder, sorted(train)) else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _are_paths(pictures: ByClass) -> bool:
    return all(isinstance(path, str) and "\0" not in path for paths in pictures.values() for path in paths)


def _write(folder: Path, kept: Path, train: ByClass, test: ByClass) -> None:
    content = {"stamps": _stamps(folder, sorted(train)), "train": train, "val": test}
    # If the cache cannot be written, the folder is only scanned again the next time.
    with suppress(AsniError):
        write_text(kept, json.dumps(content))

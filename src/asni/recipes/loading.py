"""Recipes from TOML: the ones in this package by name, a user's own by path."""

import os
import re
import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from asni.errors import UsageError, shown, unknown
from asni.files import expanded, read_bounded
from asni.recipes.checking import checked
from asni.recipes.recipe import Recipe, is_path

MOST_BYTES = 1 << 20

KEY = r"""(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')"""
TOO_LONG = {
    re.compile(rf"(?<![\w-]){KEY}(?:[ \t]*+\.[ \t]*+{KEY}){{30}}"): "a key has more than 29 dots",
    re.compile(r"(?<![0-9_])[0-9_]{1000}"): "a number has a thousand digits or more",
}
"""What tomllib takes quadratic time and memory for, or does not convert."""


class Size(NamedTuple):
    """How many parameters a network has, and how many of them are prunable."""

    parameters: int
    prunable: int


SIZES = {
    "digits-fc": Size(50_610, 50_200),
    "mnist-fc": Size(266_610, 266_200),
    "mnist-conv2": Size(3_317_450, 3_316_800),
    "mnist-conv4": Size(1_933_258, 1_932_352),
    "mnist-conv6": Size(1_802_698, 1_801_280),
    "cifar10-conv2": Size(4_301_642, 4_300_992),
    "cifar10-conv4": Size(2_425_930, 2_425_024),
    "cifar10-conv6": Size(2_262_602, 2_261_184),
    "cifar10-vgg11": Size(9_231_114, 9_222_848),
    "cifar10-vgg13": Size(9_416_010, 9_407_168),
    "cifar10-vgg16": Size(14_728_266, 14_715_584),
    "cifar10-resnet18": Size(11_181_642, 11_172_032),
    "imagenet-resnet50-80": Size(25_557_032, 25_502_912),
    "imagenet-resnet50-90": Size(25_557_032, 25_502_912),
}
"""The recipes of this package. Their sizes are listed because counting would import torch; a test checks them."""


def names() -> list[str]:
    """The recipes of this package: a small demonstration, then the paper's rows in order.

    >>> names()[:3]
    ['digits-fc', 'mnist-fc', 'mnist-conv2']
    """
    return list(SIZES)


def load(name_or_path: str) -> Recipe:
    """Load a recipe of this package by name, or a user's recipe by the path of its .toml file.

    If its dataset is a relative path, it is relative to that file.

    >>> load("mnist-fc").training.epochs
    50
    """
    if name_or_path.endswith(".toml") or "/" in name_or_path:
        path = Path(name_or_path)
        return _parsed(_read(path), name=path.stem, source=name_or_path, folder=path.parent)
    if name_or_path not in names():
        raise unknown("recipe", name_or_path, names())
    text = files(__package__).joinpath(f"{name_or_path}.toml").read_text(encoding="utf-8")
    return _parsed(text, name=name_or_path, source=name_or_path)


def _read(path: Path) -> str:
    try:
        return read_bounded(path, MOST_BYTES).decode()
    except FileNotFoundError:
        raise UsageError(f"no recipe file {str(path)!r} (recipes by name: {', '.join(names())})") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{shown(path)}: not valid UTF-8 (byte {error.start})") from None
    except OSError as error:
        raise UsageError(f"{shown(path)}: cannot be read: {error.strerror}") from None


def _parsed(text: str, name: str, source: str, folder: Path = Path()) -> Recipe:
    data = _toml(text, shown(source))
    if isinstance(dataset := data.get("dataset"), str) and is_path(dataset):
        data["dataset"] = _beside(folder, expanded(dataset, f"{shown(source)}: dataset"))
    return checked(Recipe, data, source, name=name, overrides={})


def _toml(text: str, source: str) -> dict[str, Any]:
    for pattern, problem in TOO_LONG.items():
        if found := pattern.search(text):
            raise UsageError(f"{source}: line {text.count(chr(10), 0, found.start()) + 1}: {problem}")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise UsageError(f"{source}: arrays or tables are nested too deeply") from None
    except ValueError as error:
        raise UsageError(f"{source}: not valid TOML: {error}") from None


def _beside(folder: Path, data: Path) -> str:
    """The path of data that is given relative to the recipe's folder, always in the same spelling.

    >>> _beside(Path("mine"), Path("flowers")), _beside(Path(), Path("flowers")), _beside(Path(), Path("/flowers"))
    ('mine/flowers', './flowers', '/flowers')
    """
    path = os.path.normpath(folder / data)
    return path if is_path(path) else f"./{path}"

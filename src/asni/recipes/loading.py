"""Recipes from TOML: the ones in this package by name, a user's own by path."""

import tomllib
from importlib.resources import files
from pathlib import Path

from asni.errors import UsageError, unknown
from asni.recipes.checking import checked
from asni.recipes.recipe import Recipe

NAMES = (
    "digits-fc",
    "mnist-fc",
    "mnist-conv2",
    "mnist-conv4",
    "mnist-conv6",
    "cifar10-conv2",
    "cifar10-conv4",
    "cifar10-conv6",
    "cifar10-vgg11",
    "cifar10-vgg13",
    "cifar10-vgg16",
    "cifar10-resnet18",
    "imagenet-resnet50-80",
    "imagenet-resnet50-90",
)


def names() -> list[str]:
    """The recipes of this package: a small demonstration, then the paper's rows in order.

    >>> names()[:3]
    ['digits-fc', 'mnist-fc', 'mnist-conv2']
    """
    return list(NAMES)


def load(name_or_path: str) -> Recipe:
    """A recipe of this package by name, or the user's own by the path of its .toml file.

    >>> load("mnist-fc").training.epochs
    50
    """
    if name_or_path.endswith(".toml") or "/" in name_or_path:
        path = Path(name_or_path)
        return _parsed(_read(path), name=path.stem, source=name_or_path)
    if name_or_path not in names():
        raise unknown("recipe", name_or_path, names())
    text = files(__package__).joinpath(f"{name_or_path}.toml").read_text(encoding="utf-8")
    return _parsed(text, name=name_or_path, source=name_or_path)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UsageError(f"no recipe file '{path}' (recipes by name: {', '.join(names())})") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not a text file in UTF-8 (byte {error.start})") from None
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from None


def _parsed(text: str, name: str, source: str) -> Recipe:
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{source}: not valid TOML: {error}") from None
    return checked(Recipe, data, source, name=name, overrides={})

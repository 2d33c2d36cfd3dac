"""Every run below a directory, read without trust: what cannot be read is a warning, never a number."""

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from asni import run_files
from asni.distributions import Histogram, Layer, histogram, layers, surviving
from asni.errors import AsniError, UsageError
from asni.recipes import Recipe
from asni.studies import UNTOUCHED

Value = TypeVar("Value", str, int)
_KINDS = {str: "a text", int: "a whole number"}
_MOST_LAYER_BINS = 2048
_MOST_NETWORK_BINS = 16384  # the widest weights of one layer set its span, the many near zero its picture
Stamps = tuple[tuple[int, int] | None, ...]
RESULTS = ("accuracy", "nonzeros", "sparsity", "total_sparsity", "seconds")


@dataclass(frozen=True)
class ShownRun:
    """One training: what was asked, how far it came, and what it left.

    `network` counts its surviving weights, `initial` those that the network had before any training.
    """

    path: str
    recipe: Recipe
    stage: str
    seed: int
    precision: str
    finished: bool
    result: Mapping[str, float]
    metrics: Mapping[str, npt.NDArray[np.float64]]
    environment: Mapping[str, Any]
    layers: list[Layer]
    network: Histogram | None
    initial: Histogram | None

    @property
    def epochs_done(self) -> int:
        return len(self.metrics["epoch"])


@dataclass
class Collection:
    """The runs in the order of their paths, and what was wrong with those that are not here or not whole."""

    name: str
    runs: list[ShownRun] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def collect(root: Path) -> Collection:
    """Every run below `root`."""
    if not root.is_dir():
        raise UsageError(f"{root} is not a directory. Name one that holds runs, such as runs/ or runs/mnist-fc.")
    collection = Collection(root.resolve().name)
    for directory in directories(root):
        warnings: list[str] = []
        try:
            collection.runs.append(_read(directory, directory.relative_to(root).as_posix(), warnings))
        except AsniError as error:
            warnings.append(f"{directory.relative_to(root).as_posix()} is left out: {error}")
        collection.warnings += [_told(root, warning) for warning in warnings]
    return collection


def stamps(directory: Path, files: Sequence[str]) -> Stamps:
    """Changes when one of the files does."""
    found: list[tuple[int, int] | None] = []
    for name in files:
        try:
            stat = (directory / name).stat()
        except OSError:
            found.append(None)
        else:
            found.append((stat.st_mtime_ns, stat.st_size))
    return tuple(found)


def _told(root: Path, warning: str) -> str:
    """A page is passed on: where its directory lay is nobody's business, and the same runs give the same bytes."""
    # A file name may hold bytes that are not UTF-8, which no terminal takes.
    return warning.replace(f"{root}{os.sep}", "").encode("utf-8", "replace").decode("utf-8")


def directories(root: Path) -> Iterator[Path]:
    """Those that hold a run, or what is left of one."""
    for folder, below, files in os.walk(root):
        below[:] = sorted(name for name in below if not name.startswith("."))
        if {"request.json", "metrics.jsonl", "result.json"} & set(files):
            yield Path(folder)


def _read(directory: Path, path: str, warnings: list[str]) -> ShownRun:
    request = run_files.json_object(directory / "request.json")
    environment = _environment(directory, path, warnings)
    recipe = run_files.recipe(directory)
    finished = (directory / "result.json").exists()
    metrics = run_files.metrics(directory)
    if not finished:
        done, epochs = len(metrics["epoch"]), recipe.training.epochs
        warnings.append(f"{path} is not finished: these are its numbers after {done} of {epochs} epochs")
    stage = _asked(directory, request, "stage", str)
    counted, network = _weights(directory, path, warnings) if finished else ([], None)
    return ShownRun(
        path,
        recipe,
        stage,
        _asked(directory, request, "seed", int),
        _asked(directory, request, "precision", str),
        finished,
        _result(directory) if finished else _last(metrics),
        metrics,
        environment,
        counted,
        network,
        _initial(directory, path, warnings) if finished and stage in UNTOUCHED else None,
    )


def _asked(directory: Path, request: Mapping[str, Any], key: str, kind: type[Value]) -> Value:
    value = request.get(key)
    if type(value) is not kind:
        raise AsniError(f"{directory / 'request.json'}: {key} is {value!r}, not {_KINDS[kind]}")
    return value


def _environment(directory: Path, path: str, warnings: list[str]) -> dict[str, Any]:
    try:
        found = run_files.json_object(directory / "environment.json")
    except AsniError as error:
        warnings.append(f"{path} is shown without its environment: {error}")
        return {}
    ours, theirs = version("asni"), found.get("asni")
    if theirs is None:
        warnings.append(f"{path} does not say which version of asni made it")
    elif _series(str(theirs)) != _series(ours):
        raise AsniError(f"it was made by asni {theirs}, and asni {ours} may read something else into its numbers")
    return found


def _series(release: str) -> list[str]:
    """0.1 of 0.1.4: what releases of one series write means the same to all of them."""
    return release.split(".")[:2]


def _result(directory: Path) -> dict[str, float]:
    path = directory / "result.json"
    found = run_files.json_object(path)
    if missing := [key for key in RESULTS if key not in found]:
        raise AsniError(f"{path}: {', '.join(missing)} missing; the file is damaged, or from another version of asni")
    return {key: run_files.finite_or_nan(found[key], f"{path}: {key}") for key in RESULTS}


def _last(metrics: Mapping[str, npt.NDArray[np.float64]]) -> dict[str, float]:
    last = {key: float(metrics[key][-1]) if key in metrics else math.nan for key in RESULTS}
    return {**last, "seconds": float(metrics["seconds"].sum()) if "seconds" in metrics else math.nan}


def _weights(directory: Path, path: str, warnings: list[str]) -> tuple[list[Layer], Histogram | None]:
    try:
        found, network = _counted(directory, stamps(directory, ("weights.safetensors", "mask.safetensors")))
    except AsniError as error:
        warnings.append(f"{path} is shown without its layers: {error}")
        return [], None
    return list(found), network


def _initial(directory: Path, path: str, warnings: list[str]) -> Histogram | None:
    if not (directory / "initial.safetensors").exists():
        return None
    try:
        return _counted_initial(directory, stamps(directory, ("initial.safetensors",)))
    except AsniError as error:
        warnings.append(f"{path} is shown without its initial weights: {error}")
        return None


@lru_cache(maxsize=256)
def _counted(directory: Path, unchanged: Stamps) -> tuple[tuple[Layer, ...], Histogram]:
    """A served page is built again and again, but the weights of a finished run are counted once."""
    weights, masks = run_files.masked_weights(directory)
    found = [replace(layer, histogram=_coarser(layer.histogram, _MOST_LAYER_BINS)) for layer in layers(weights, masks)]
    return tuple(found), _coarser(histogram(surviving(weights, masks).values()), _MOST_NETWORK_BINS)


@lru_cache(maxsize=256)
def _counted_initial(directory: Path, unchanged: Stamps) -> Histogram:
    weights = run_files.weights(directory, "initial.safetensors")
    return _coarser(histogram(weights.values()), _MOST_NETWORK_BINS)


def _coarser(counted: Histogram, most_bins: int) -> Histogram:
    """Still exact and much finer than a screen, but small enough to hold for many runs."""
    while len(counted.counts) > most_bins:
        counted = counted.merged(2 * counted.width)
    return counted

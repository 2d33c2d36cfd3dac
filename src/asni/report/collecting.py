"""Read every run below a directory. All files are validated; what cannot be read becomes a notice, never a number."""

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from asni.display import on_stderr
from asni.errors import AsniError, UsageError
from asni.figures.distributions import Histogram, Layer, histogram, layers, surviving
from asni.files import regular_size
from asni.methods import FROM_ORIGINAL_VALUES, METHODS
from asni.recipes import Recipe
from asni.report.finding import directories, require_inside
from asni.report.notices import Cause, Notice
from asni.report.possible import require_possible
from asni.runs import names, reading

Value = TypeVar("Value", str, int, dict[str, Any])
_KINDS: dict[type, str] = {str: "a string", int: "an integer", dict: "an object"}
_MOST_LAYER_BINS = 2048
_MOST_NETWORK_BINS = 16384  # one layer with large weights sets the span, but most weights are near zero
_CACHED_RUNS = 2048  # cached runs; with more, reading them in order would miss every time
_MOST_DETAIL = 1000  # characters; a message may quote a name from a file, of any length
_MOST_LAYERS = 5000
_MOST_WEIGHTS_BYTES = 1 << 30
_MOST_SEED = 2**64 - 1
Found = list[tuple[Cause, str]]
Stamps = tuple[tuple[int, int] | None, ...]
RESULTS = ("accuracy", "nonzeros", "sparsity", "total_sparsity", "seconds")
MAC_DENSITY = reading.MAC_DENSITY


@dataclass(frozen=True)
class ShownRun:
    """One training: its request, its progress and its results.

    A result that is not known is NaN. `network` is a histogram of its surviving weights, `initial` one of the weights
    before any training. Of ASNI-II, `start_numbers` is how many numbers its weights started from, if that is known.
    """

    directory: Path
    path: str
    recipe: Recipe
    own_data: Mapping[str, Any] | None
    method: str
    stage: str
    seed: int
    precision: str
    settings: Mapping[str, Any]
    finished: bool
    result: Mapping[str, float]
    metrics: Mapping[str, npt.NDArray[np.float64]]
    environment: Mapping[str, Any]
    layers: list[Layer]
    network: Histogram | None
    initial: Histogram | None
    start_numbers: int | None

    @property
    def is_last(self) -> bool:
        """Whether this training gives the method's final network, not an intermediate one."""
        return self.stage == self.method

    @property
    def epochs_done(self) -> int:
        return len(self.metrics["epoch"])


@dataclass
class Collection:
    """The runs in the order of their paths, and notices about those that were skipped or are incomplete."""

    name: str
    runs: list[ShownRun] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)


def collect(root: Path) -> Collection:
    """Read every run below `root`."""
    if not root.is_dir():
        raise UsageError(f"{root} is not a directory. Choose one that contains runs, such as runs/ or runs/mnist-fc.")
    collection = Collection(_encodable(root.resolve().name))

    def notice(directory: Path, cause: Cause, detail: str) -> None:
        run, detail = (_printable(root, text) for text in (directory.relative_to(root).as_posix(), detail))
        collection.notices.append(Notice(cause, run, detail))

    below = [*directories(root, lambda skipped, why: notice(skipped, Cause.SKIPPED, why))]
    for directory in on_stderr().track(below, f"Reading {len(below)} runs"):
        found: Found = []
        try:
            require_inside(root, directory)
            collection.runs.append(_read(directory, _encodable(directory.relative_to(root).as_posix()), found))
        except Exception as error:
            # A hostile file can raise almost anything, and the other runs must be shown.
            found.append((Cause.SKIPPED, reason(error)))
        for cause, detail in found:
            notice(directory, cause, detail)
    return collection


def reason(error: Exception) -> str:
    """Why a run cannot be shown."""
    return str(error) if isinstance(error, AsniError) else f"{type(error).__name__}: {error}"


def stamps(directory: Path, files: Sequence[str]) -> Stamps:
    """Modification time and size of each file, or None if it is missing."""
    found: list[tuple[int, int] | None] = []
    for name in files:
        try:
            stat = (directory / name).stat()
        except OSError:
            found.append(None)
        else:
            found.append((stat.st_mtime_ns, stat.st_size))
    return tuple(found)


def _printable(root: Path, detail: str) -> str:
    """Remove `root` from paths: a shared page must not reveal it, and the same runs must give the same bytes."""
    text = _encodable(detail.replace(f"{root}{os.sep}", ""))
    half = _MOST_DETAIL // 2
    return text if len(text) <= _MOST_DETAIL else f"{text[:half]} … {text[-half:]}"


def _encodable(name: str) -> str:
    """Escape what UTF-8 cannot encode: the bytes of a file name that are not UTF-8, and lone surrogates."""
    return name.encode("utf-8", "backslashreplace").decode("utf-8")


def _read(directory: Path, path: str, found: Found) -> ShownRun:
    request = _encodable_object(directory / names.REQUEST)
    environment = _environment(directory, found)
    recipe = reading.recipe(directory)
    finished = (directory / names.RESULT).exists()
    metrics = _metrics(directory, recipe.training.epochs)
    stage, seed = _asked(directory, request, "stage", str), _asked(directory, request, "seed", int)
    if not 0 <= seed <= _MOST_SEED:
        raise AsniError(f"{directory / names.REQUEST}: seed is {seed}, not between 0 and {_MOST_SEED}")
    result = _result(directory, stage, seed) if finished else _last(metrics)
    if finished:
        found += _missing(metrics, result)
    else:
        done, epochs = len(metrics["epoch"]), recipe.training_of(stage).epochs
        found.append((Cause.UNFINISHED, f"its results are those after {done} of {epochs} epochs"))
    has_weights = finished and _has_weights(directory, found)
    counted, network = _weights(directory, found) if has_weights else ([], None)
    return ShownRun(
        directory,
        path,
        recipe,
        reading.own_data(directory),
        _method(directory, request, stage),
        stage,
        seed,
        _asked(directory, request, "precision", str),
        _asked(directory, {"settings": {}, **request}, "settings", dict),
        finished,
        {key: math.nan if result[key] is None else result[key] for key in (*RESULTS, MAC_DENSITY)},
        metrics,
        environment,
        counted,
        network,
        _initial(directory, found) if has_weights and stage in FROM_ORIGINAL_VALUES else None,
        _start_numbers(directory, counted) if finished and stage == "asni-2" else None,
    )


def _encodable_object(path: Path) -> dict[str, Any]:
    found = reading.json_object(path)
    try:
        json.dumps(found, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise AsniError(
            f"{path}: {error.object[error.start]!r} is half of a surrogate pair, which is not text"
        ) from error
    return found


def _method(directory: Path, request: Mapping[str, Any], stage: str) -> str:
    if "method" not in request and stage not in METHODS:
        raise AsniError(f"an earlier version of asni wrote it, and did not record the method that {stage} belongs to")
    return _asked(directory, {"method": stage, **request}, "method", str)


def _asked(directory: Path, request: Mapping[str, Any], key: str, kind: type[Value]) -> Value:
    value = request.get(key)
    if type(value) is not kind:
        raise AsniError(f"{directory / names.REQUEST}: {key} is {value!r}, not {_KINDS[kind]}")
    return value


def _environment(directory: Path, found: Found) -> dict[str, Any]:
    try:
        environment = _encodable_object(directory / names.ENVIRONMENT)
    except AsniError as error:
        found.append((Cause.NO_ENVIRONMENT, str(error)))
        return {}
    ours, theirs = version("asni"), environment.get("asni")
    if theirs is None:
        found.append((Cause.UNKNOWN_VERSION, ""))
    elif _series(str(theirs)) != _series(ours):
        raise AsniError(f"it was written by asni {theirs}, and asni {ours} may misread its numbers")
    return environment


def _series(release: str) -> list[str]:
    """The series of a release, such as 0.1 of 0.1.4; releases of one series can read each other's runs."""
    return release.split(".")[:2]


def _metrics(directory: Path, epochs: int) -> dict[str, npt.NDArray[np.float64]]:
    found = reading.metrics(directory)
    if (last := int(found["epoch"][-1])) >= epochs:
        raise AsniError(f"{directory / names.METRICS}: found epoch {last}, but its request is for {epochs} epochs")
    require_possible(directory / names.METRICS, found)
    return found


def _result(directory: Path, stage: str, seed: int) -> dict[str, Any]:
    found = reading.result(directory)
    if (found["stage"], found["seed"]) != (stage, seed):
        raise AsniError(
            f"{directory / names.RESULT} belongs to {found['stage']} with seed {found['seed']}, "
            f"but its request is for {stage} with seed {seed}"
        )
    require_possible(directory / names.RESULT, found)
    return found


def _missing(metrics: Mapping[str, npt.NDArray[np.float64]], result: Mapping[str, Any]) -> Found:
    """What a finished run should have saved but lacks."""
    recorded, trained = len(metrics["epoch"]), result["epochs"]
    why = f"it was trained for {trained} epochs, but its {names.METRICS} holds {recorded}"
    return [] if recorded == trained else [(Cause.LOST_EPOCHS, why)]


def _last(metrics: Mapping[str, npt.NDArray[np.float64]]) -> dict[str, float]:
    last = {key: float(metrics[key][-1]) if key in metrics else math.nan for key in (*RESULTS, MAC_DENSITY)}
    return {**last, "seconds": float(metrics["seconds"].sum()) if "seconds" in metrics else math.nan}


def _has_weights(directory: Path, found: Found) -> bool:
    """Whether the run's weights are there, whole or damaged; runs are often shared without them, on purpose."""
    files = (names.WEIGHTS, names.MASK, names.INITIAL)
    if any(os.path.lexists(directory / name) for name in files) or names.WEIGHTS not in reading.digests(directory):
        return True
    found.append((Cause.NO_WEIGHTS, ""))
    return False


def _weights(directory: Path, found: Found) -> tuple[list[Layer], Histogram | None]:
    try:
        counted, network = _counted(directory, stamps(directory, (names.RESULT, names.WEIGHTS, names.MASK)))
    except AsniError as error:
        found.append((Cause.UNDRAWN_LAYERS, str(error)))
        return [], None
    return list(counted), network


def _initial(directory: Path, found: Found) -> Histogram | None:
    try:
        return _counted_initial(directory, stamps(directory, (names.RESULT, names.INITIAL)))
    except AsniError as error:
        found.append((Cause.UNDRAWN_START, str(error)))
        return None


def _start_numbers(directory: Path, counted: Sequence[Layer]) -> int | None:
    try:
        return sum(number is not None for pair in reading.centroids(directory).values() for number in pair)
    except AsniError:
        return 2 * len(counted) or None


@lru_cache(maxsize=_CACHED_RUNS)
def _counted(directory: Path, unchanged: Stamps) -> tuple[tuple[Layer, ...], Histogram]:
    """Cached: a served page is rebuilt often, but the weights of a finished run are counted only once."""
    _require_bounded(directory, names.WEIGHTS, names.MASK)
    weights, masks = reading.masked_weights(directory)
    if len(weights) > _MOST_LAYERS:
        raise AsniError(
            f"{directory / names.WEIGHTS} holds {len(weights):,} layers, and at most {_MOST_LAYERS:,} are shown"
        )
    found = [replace(layer, histogram=_coarser(layer.histogram, _MOST_LAYER_BINS)) for layer in layers(weights, masks)]
    return tuple(found), _coarser(histogram(surviving(weights, masks).values()), _MOST_NETWORK_BINS)


@lru_cache(maxsize=_CACHED_RUNS)
def _counted_initial(directory: Path, unchanged: Stamps) -> Histogram:
    _require_bounded(directory, names.INITIAL)
    weights = reading.weights(directory, names.INITIAL)
    return _coarser(histogram(weights.values()), _MOST_NETWORK_BINS)


def _require_bounded(directory: Path, *files: str) -> None:
    for path in (directory / name for name in files if (directory / name).exists()):
        try:
            regular_size(path, _MOST_WEIGHTS_BYTES)
        except OSError as error:
            raise AsniError(f"cannot read {path}: {error.strerror}") from error


def _coarser(counted: Histogram, most_bins: int) -> Histogram:
    """Merge bins until at most `most_bins` are left: still exact, but small enough to cache for many runs."""
    while len(counted.counts) > most_bins:
        counted = counted.merged(2 * counted.width)
    return counted

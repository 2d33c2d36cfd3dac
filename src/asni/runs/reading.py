"""Read and validate the files of a run; every error names the file.

Every JSON object carries a checksum, and the result of a finished run the digests of all its other files. A file that
does not match them is never used.
"""

import json
import math
import re
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError

from asni.datasets.info import INFO
from asni.errors import AsniError, DamagedError, UsageError
from asni.files import regular_size
from asni.recipes import Recipe
from asni.recipes.checking import checked
from asni.runs import names
from asni.runs.checksums import checksum, digest, opened

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Masks = Mapping[str, "npt.NDArray[np.bool_]"]

NUMBERS = {"seed", "epochs", "steps", "accuracy", "nonzeros", "sparsity", "total_sparsity", "seconds"}
RESULT = NUMBERS | {"stage", "rounds"}
MAC_DENSITY = "mac_density"
"""Which earlier runs did not record."""
DIGESTS = "files"
MOST_TEXT_BYTES = 32 << 20
"""Of a JSON file. The metrics of 100,000 epochs fit; parsed, a file takes up to 40 times its size in memory."""
_MOST_COLUMNS = 100
_NUMBER = re.compile(r"\d{1,18}")
_LARGEST_WEIGHT = (2 - 2**-23) * 2.0**127


def weights(run: Path, file: str = names.WEIGHTS, only: Collection[str] = ()) -> "dict[str, npt.NDArray[np.floating]]":
    """The weights of a run (`initial.safetensors`: those it started from), in the network's order.

    `only` names them; left out, all with two dimensions or more whose name ends with "weight" are taken.
    """
    path = run / file
    tensors = {
        name: tensor
        for name, tensor in _tensors(path).items()
        if (name in only if only else name.endswith("weight") and tensor.ndim >= 2) and tensor.dtype.kind == "f"
    }
    if not tensors and not only:
        raise AsniError(f"{path} holds no weights of convolution or linear layers")
    for name, tensor in tensors.items():
        if tensor.size == 0 or not max(-float(tensor.min()), float(tensor.max())) <= _LARGEST_WEIGHT:
            raise AsniError(f"{path}: layer {name} is empty, or holds NaN, infinity or values beyond float32")
    return {name: tensors[name] for name in sorted(tensors, key=lambda name: _network_order(name, tensors[name].ndim))}


def _network_order(name: str, dimensions: int) -> tuple[bool, list[tuple[int, str]]]:
    """Sort key: convolutions before linear layers, and layer 2 before layer 10; safetensors sorts by name."""
    pieces = [(int(piece), "") if _NUMBER.fullmatch(piece) else (-1, piece) for piece in re.split(r"(\d+)", name)]
    return dimensions == 2, pieces


def masks(run: Path) -> Masks:
    """The masks by layer name; empty for a dense run, which has no mask file."""
    path = run / names.MASK
    found = _tensors(path) if path.exists() or names.MASK in digests(run) else {}
    for name, mask in found.items():
        if mask.dtype.kind != "b":
            raise AsniError(f"{path}: the mask of {name} holds {mask.dtype}, not booleans")
    return found


def masked_weights(run: Path) -> "tuple[dict[str, npt.NDArray[np.floating]], Masks]":
    """The final prunable weights of a run and their masks, checked to belong together.

    In a run with masks, the prunable weights are those that have one.
    """
    live = masks(run)
    values = weights(run, only=live)
    for name, mask in live.items():
        if name not in values or values[name].shape != mask.shape:
            raise AsniError(f"{run / names.MASK}: the mask of {name} does not match the weights in {run}")
    return values, live


def metric_lines(run: Path) -> list[dict[str, Any]]:
    """The lines of `metrics.jsonl` as they were recorded."""
    path = run / names.METRICS
    lines = _text(path).splitlines()
    request = checksum(json_object(run / names.REQUEST)) if lines else ""
    return [_object(line, f"{path}, line {number}", request) for number, line in enumerate(lines, 1)]


def metrics(run: Path) -> "dict[str, npt.NDArray[np.float64]]":
    """The columns of `metrics.jsonl`; a value that is null, missing or not finite is NaN."""
    import numpy as np

    path = run / names.METRICS
    rows: list[dict[str, float]] = []
    for number, line in enumerate(metric_lines(run), 1):
        rows.append(_metrics_row(f"{path}, line {number}", line, rows[-1]["epoch"] + 1 if rows else 0))
    if not rows:
        raise AsniError(f"{path} is empty: the run has not finished an epoch")
    keys = dict.fromkeys(["epoch", "accuracy", "sparsity", *(key for row in rows for key in row)])
    if len(keys) > _MOST_COLUMNS:
        raise AsniError(f"{path} has {len(keys):,} different keys, and at most {_MOST_COLUMNS} are read")
    return {key: np.array([row.get(key, math.nan) for row in rows], np.float64) for key in keys}


def result(run: Path) -> dict[str, Any]:
    """The content of `result.json` but for the digests; a number that is null or not finite is NaN.

    `rounds` lists the trainings that led to it. `mac_density` is None where the run does not know it.
    """
    path = run / names.RESULT
    found = {MAC_DENSITY: None, **{key: value for key, value in json_object(path).items() if key != DIGESTS}}
    if missing := sorted(RESULT - found.keys()):
        raise AsniError(f"{path}: {', '.join(missing)} missing; the file is damaged, or from another version of asni")
    if not isinstance(found["stage"], str):
        raise AsniError(f"{path}: stage is {found['stage']!r}, not a string")
    rounds = found["rounds"]
    if not (isinstance(rounds, list) and all(isinstance(name, str) for name in rounds)):
        raise AsniError(f"{path}: rounds is {rounds!r}, not a list of names")
    known = NUMBERS if found[MAC_DENSITY] is None else NUMBERS | {MAC_DENSITY}
    return {key: finite_or_nan(value, f"{path}: {key}") if key in known else value for key, value in found.items()}


def finite_result(run: Path) -> dict[str, Any]:
    """Like `result`, but a number that is not finite is an error: no training writes one."""
    found = result(run)
    if lost := [key for key, value in found.items() if isinstance(value, float) and math.isnan(value)]:
        raise AsniError(f"{run / names.RESULT}: {', '.join(lost)} must be a finite number")
    return found


def recipe(run: Path) -> Recipe:
    """The recipe of the run."""
    path = run / names.REQUEST
    found = json_object(path).get("recipe")
    if not isinstance(found, dict):
        raise AsniError(f"{path}: no recipe found; the file is damaged, or from another version of asni")
    try:
        return checked(Recipe, _with_its_pace(found), str(path))
    except ArithmeticError as error:
        raise AsniError(f"{path}: the recipe's schedule cannot be computed ({error})") from error


def _with_its_pace(recipe: dict[str, Any]) -> dict[str, Any]:
    """Before recipes could say `every`, trainings of any length were pruned once an epoch."""
    pruning = recipe.get("pruning")
    return {**recipe, "pruning": {"every": "epoch", **pruning}} if isinstance(pruning, dict) else recipe


def steps_per_epoch(recipe: Recipe, data: Mapping[str, Any] | None) -> int | None:
    """The steps of an epoch of a run, from its recipe and `own_data`; None if they do not tell."""
    images = INFO[recipe.dataset].train if recipe.dataset in INFO else (data or {}).get("train")
    if not isinstance(images, int) or isinstance(images, bool):
        return recipe.training.steps_per_epoch
    try:
        return recipe.steps_per_epoch(images)
    except UsageError:
        return None


def own_data(run: Path) -> dict[str, Any] | None:
    """The sizes and the checksum of the user's own data that the run was trained on; None for a published dataset."""
    path = run / names.REQUEST
    found = json_object(path).get("data")
    if found is not None and not (isinstance(found, dict) and {"shape", "classes"} <= found.keys()):
        raise AsniError(f"{path}: data is {found!r}, not the sizes of a dataset")
    return found


def centroids(run: Path) -> dict[str, tuple[float | None, float | None]]:
    """The two numbers that each layer of an ASNI-II run started from; None where a layer had no weight of that sign."""
    path = run / names.CENTROIDS
    try:
        found = json.loads(_text(path))
        return {name: (pair["positive"], pair["negative"]) for name, pair in found.items()}
    except (ValueError, RecursionError, AttributeError, KeyError, TypeError) as error:
        raise AsniError(f"{path}: not the centroids of layers ({error!r})") from error


def json_object(path: Path) -> dict[str, Any]:
    """The content of `request.json`, `environment.json` or `result.json`."""
    return _object(_text(path), str(path))


def digests(run: Path) -> dict[str, str]:
    """The SHA-256 of each file of a finished run except `result.json`; empty for an unfinished run."""
    path = run / names.RESULT
    if not path.exists():
        return {}
    found = json_object(path).get(DIGESTS)
    if not isinstance(found, dict):
        raise AsniError(f"{path}: {DIGESTS} is {found!r}, not the digests of the run's files")
    return found


def verify(path: Path) -> None:
    """Raise an error if a finished run left this file with other content."""
    if path.name == names.RESULT or not (known := digests(path.parent)):
        return
    if path.name not in known:
        raise DamagedError(f"{path} was not written by this run, which lists its files in {names.RESULT}")
    try:
        found = digest(path)
    except OSError as error:
        raise AsniError(f"cannot read {path}: {error.strerror}") from error
    if found != known[path.name]:
        raise DamagedError(f"{path} is not as the run left it: its content does not match the digest in {names.RESULT}")


def _metrics_row(where: str, line: Mapping[str, Any], first_epoch: float) -> dict[str, float]:
    row = {key: finite_or_nan(value, f"{where}: {key}") for key, value in line.items()}
    epoch = row.get("epoch", math.nan)
    if not (epoch >= first_epoch and epoch % 1 == 0):
        raise AsniError(f"{where}: epoch is {epoch}, expected an integer of at least {first_epoch}")
    return row


def finite_or_nan(value: object, what: str) -> float:
    """A number read from a file; null and numbers that are not finite become NaN."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise AsniError(f"{what} is {value!r}, not a number")
    return value if value is not None and abs(value) <= sys.float_info.max else math.nan


def _object(line: str, where: str, of: str = "") -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise AsniError(f"{where}: invalid JSON ({error}); the file is damaged or truncated") from error
    if not isinstance(found, dict):
        raise AsniError(f"{where}: not a JSON object")
    return opened(found, where, of)


def _text(path: Path) -> str:
    try:
        regular_size(path, MOST_TEXT_BYTES)
        verify(path)
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise AsniError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise AsniError(f"cannot read {path}: {error}") from error


def _tensors(path: Path) -> "dict[str, npt.NDArray[Any]]":
    """Read with NumPy, so that figures and reports do not load torch."""
    from safetensors.numpy import load_file

    try:
        regular_size(path)
        verify(path)
        return load_file(path)
    except OSError as error:
        raise AsniError(f"cannot read {path}: {error.strerror or error}") from error
    except (SafetensorError, KeyError, ValueError, TypeError, AttributeError) as error:
        # The types that NumPy lacks are an AttributeError.
        raise AsniError(f"cannot read {path}: {error}; the file is missing or damaged") from error

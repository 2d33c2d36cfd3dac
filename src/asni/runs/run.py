"""The trainings of one seed, and the directory of each of them."""

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from asni import datasets
from asni.errors import AsniError
from asni.files import make_directory, read_tensors, write_atomically, write_json, write_tensors, write_text
from asni.recipes import Recipe
from asni.runs import names, reading

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Experiment:
    """One seed of one recipe: all its trainings share the initial values and the order of the data."""

    recipe: Recipe
    seed: int
    precision: str
    root: Path

    def __str__(self) -> str:
        return f"{self.recipe.variant_name} seed {self.seed}"

    @property
    def home(self) -> Path:
        """The directory of its trainings, the same for every command."""
        return self.root / self.recipe.variant_name / f"seed-{self.seed}"

    @cached_property
    def data(self) -> dict[str, Any]:
        """What a request records of the user's own data, so that other data is not taken for the same."""
        found = datasets.fingerprint(self.recipe.dataset, self.recipe.dataset_options)
        return {} if found is None else {"data": found}

    def run(self, stage: str, *, method: str | None = None, settings: Mapping[str, Any] | None = None) -> "Run":
        """The run of the training `stage`, the last one of the method of that name unless `method` is given.

        `settings` are method-specific values in which two runs of the same name could differ; None accepts any.
        """
        request = {
            "recipe": self.recipe.model_dump(),
            "method": method or stage,
            "stage": stage,
            "seed": self.seed,
            "precision": self.precision,
            **self.data,
        }
        return Run(self.home / stage, request if settings is None else {**request, "settings": dict(settings)})


@dataclass(frozen=True)
class Run:
    """The directory of one training; `names` lists its files."""

    directory: Path
    request: Mapping[str, Any]

    @contextmanager
    def locked(self, *, wait: bool = False) -> Iterator[None]:
        """Lock the directory against other processes; the kernel releases the lock of a killed process."""
        make_directory(self.directory)
        lock = FileLock(self.directory / names.LOCK, timeout=-1 if wait else 0)
        try:
            lock.acquire()
        except Timeout:
            raise AsniError(
                f"another process is training in {self.directory}. Wait for it (--wait), or choose another --out."
            ) from None
        except OSError as error:
            raise AsniError(f"cannot write to {self.directory}: {error.strerror}. Choose another --out.") from error
        try:
            yield
        finally:
            lock.release()

    @property
    def finished(self) -> bool:
        """Whether the run is finished; a different request or a damaged result in its directory is an error."""
        path = self.directory / names.REQUEST
        if path.exists():
            earlier = self._earlier_request()
            if differences := _differences({key: earlier.get(key) for key in self.request}, self.request):
                raise AsniError(
                    f"{self.directory} holds a different run: {'; '.join(differences)}. "
                    "Choose another --out, or remove that directory."
                )
        # Read here, so that a damaged result is reported before hours of training, not after.
        return (self.directory / names.RESULT).exists() and bool(self.result)

    def _earlier_request(self) -> dict[str, Any]:
        """The request on disk, with the defaults of what earlier versions did not write."""
        try:
            request = reading.json_object(self.directory / names.REQUEST)
            recipe = reading.recipe(self.directory).model_dump()
        except AsniError as error:
            raise AsniError(f"{error}. Remove its directory to train again.") from error
        return {"method": request.get("stage"), "settings": {}, **request, "recipe": recipe}

    @property
    def checkpoint(self) -> Path:
        return self.directory / names.CHECKPOINT

    @property
    def result(self) -> dict[str, Any]:
        """The content of `result.json`; every number is finite."""
        try:
            return reading.finite_result(self.directory)
        except AsniError as error:
            raise AsniError(f"{error}. Remove its directory to train again.") from error

    @property
    def initial(self) -> "dict[str, Tensor]":
        """The values that the training started from."""
        return read_tensors(self.directory / names.INITIAL)

    @property
    def weights(self) -> "dict[str, Tensor]":
        """The values that the training ended with."""
        return read_tensors(self.directory / names.WEIGHTS)

    @property
    def masks(self) -> "dict[str, Tensor]":
        """The masks at the end of the training."""
        return read_tensors(self.directory / names.MASK)

    def start(
        self, environment: Mapping[str, Any], initial: "Mapping[str, Tensor]", notes: Mapping[str, object]
    ) -> None:
        """Write the files that are known before the first step; `notes` are method-specific JSON files, by name."""
        write_json(self.directory / names.REQUEST, self.request)
        self._write_notes(notes)
        write_json(self.directory / names.ENVIRONMENT, environment)
        write_tensors(self.directory / names.INITIAL, initial)

    def write_metrics(self, entries: list[dict[str, Any]]) -> None:
        write_text(self.directory / names.METRICS, "".join(f"{json.dumps(entry)}\n" for entry in entries))

    def finish(
        self, weights: "Mapping[str, Tensor]", masks: "Mapping[str, Tensor] | None", result: Mapping[str, Any]
    ) -> None:
        write_tensors(self.directory / names.WEIGHTS, weights)
        if masks is not None:
            write_tensors(self.directory / names.MASK, masks)
        write_json(self.directory / names.RESULT, result)
        # No longer needed: the run is finished.
        self.checkpoint.unlink(missing_ok=True)

    def copy(self, other: "Run", result: Mapping[str, Any], notes: Mapping[str, object]) -> None:
        """Copy the files of another run, except its request and result, which are this run's own."""
        write_json(self.directory / names.REQUEST, self.request)
        self._write_notes(notes)
        for name in names.RUN_FILES:
            if name not in (names.REQUEST, names.RESULT):
                write_atomically(self.directory / name, partial(shutil.copyfile, other.directory / name))
        write_json(self.directory / names.RESULT, result)

    def _write_notes(self, notes: Mapping[str, object]) -> None:
        for name, content in notes.items():
            write_json(self.directory / name, content)


def _differences(earlier: Mapping[str, Any], asked: Mapping[str, Any], prefix: str = "") -> list[str]:
    found = []
    for key in sorted({*earlier, *asked}):
        before, now = earlier.get(key), asked.get(key)
        if isinstance(before, dict) and isinstance(now, dict):
            found += _differences(before, now, f"{prefix}{key}.")
        elif before != now:
            found.append(f"{prefix}{key} is {before!r} on disk, {now!r} requested")
    return found

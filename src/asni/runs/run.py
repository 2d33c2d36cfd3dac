"""The trainings of one seed, and the directory of each of them."""

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from asni import datasets
from asni.errors import AsniError, DamagedError
from asni.files import (
    make_directory,
    read_tensors,
    remove_temporaries,
    write_atomically,
    write_json,
    write_tensors,
    write_text,
)
from asni.pruning.length import FEW_EPOCHS
from asni.recipes import Recipe
from asni.runs import checkpoints, names, reading
from asni.runs.checksums import checksum, digest, sealed

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

    def round(self, stage: str) -> "Run":
        """A training that led to another one, whatever method it belongs to."""
        run = self.run(stage)
        return Run(run.directory, {key: value for key, value in run.request.items() if key != "method"})

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
            remove_temporaries(self.directory, names.is_of_a_run)
            yield
        finally:
            lock.release()

    @property
    def finished(self) -> bool:
        """Whether the run is finished; a different request or a damaged result in its directory is an error."""
        if not (self.directory / names.REQUEST).exists():
            self._require_empty()
            return False
        earlier = self._earlier_request()
        if differences := _differences(
            _with_pace({key: earlier.get(key) for key in self.request}), _with_pace(self.request)
        ):
            raise AsniError(
                f"{self.directory} holds a different run: {'; '.join(differences)}. "
                "Choose another --out, or remove that directory."
            )
        # Read here, so that a damaged result is reported before hours of training, not after.
        return (self.directory / names.RESULT).exists() and bool(self.result)

    def _require_empty(self) -> None:
        """Without a request, nothing says which run the other files belong to."""
        files = sorted(path.name for path in self.directory.iterdir()) if self.directory.is_dir() else []
        if others := [name for name in files if names.is_of_a_run(name)]:
            raise AsniError(
                f"{self.directory} has lost its {names.REQUEST}, so it is unknown which run wrote its "
                f"{', '.join(others)}. Remove that directory to train again."
            )

    def _earlier_request(self) -> dict[str, Any]:
        """The request on disk; its recipe with the defaults of settings that came later."""
        with _advice():
            request = reading.json_object(self.directory / names.REQUEST)
            return {**request, "recipe": reading.recipe(self.directory).model_dump()}

    def require_sound(self) -> None:
        """Raise an error if a file of the finished run has changed or is missing."""
        with _advice():
            for name in reading.digests(self.directory):
                reading.verify(self.directory / name)

    @property
    def result(self) -> dict[str, Any]:
        """The content of `result.json` but for the digests; every number is finite."""
        with _advice():
            return reading.finite_result(self.directory)

    @property
    def initial(self) -> "dict[str, Tensor]":
        """The values that the training started from."""
        return self._tensors(names.INITIAL)

    @property
    def weights(self) -> "dict[str, Tensor]":
        """The values that the training ended with."""
        return self._tensors(names.WEIGHTS)

    @property
    def masks(self) -> "dict[str, Tensor]":
        """The masks at the end of the training."""
        return self._tensors(names.MASK)

    def _tensors(self, name: str) -> "dict[str, Tensor]":
        with _advice():
            reading.verify(self.directory / name)
            return read_tensors(self.directory / name)

    def start(
        self, environment: Mapping[str, Any], initial: "Mapping[str, Tensor]", notes: Mapping[str, object]
    ) -> dict[str, str]:
        """Write the files that are known before the first step, and return their digests.

        `notes` are method-specific JSON files, by name.
        """
        self._write_texts({names.REQUEST: sealed(self.request), **notes, names.ENVIRONMENT: sealed(environment)})
        write_tensors(self.directory / names.INITIAL, initial)
        return self._digests(names.REQUEST, *notes, names.ENVIRONMENT, names.INITIAL)

    def changed(self, written: Mapping[str, str]) -> list[str]:
        """The files that are missing or whose content does not have the digest with which it was written."""
        return [
            name
            for name, expected in written.items()
            if not (self.directory / name).is_file() or digest(self.directory / name) != expected
        ]

    def checkpoint(self) -> tuple[dict[str, Any] | None, list[str]]:
        """The newest sound checkpoint of this run, and what is wrong with newer ones."""
        request = self.directory / names.REQUEST
        return checkpoints.newest(self.directory, digest(request)) if request.exists() else (None, [])

    def stamp(self) -> tuple[int, int] | None:
        """Changes when the run is removed or started again."""
        try:
            found = (self.directory / names.REQUEST).stat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns

    def save(self, metrics: list[dict[str, Any]], state: Mapping[str, Any]) -> None:
        """Write a checkpoint, and the metrics of all finished epochs."""
        checkpoints.save(self.directory, len(metrics), state)
        self._write_metrics(metrics)

    def _write_metrics(self, entries: list[dict[str, Any]]) -> None:
        request = checksum(self.request)
        lines = [json.dumps(sealed(entry, request)) for entry in entries]
        write_text(self.directory / names.METRICS, "".join(f"{line}\n" for line in lines))

    def finish(
        self,
        written: Mapping[str, str],
        metrics: list[dict[str, Any]],
        weights: "Mapping[str, Tensor]",
        masks: "Mapping[str, Tensor] | None",
        result: Mapping[str, Any],
    ) -> None:
        """Write what the training ended with; `written` are the digests of `start`."""
        self._write_metrics(metrics)
        write_tensors(self.directory / names.WEIGHTS, weights)
        if masks is not None:
            write_tensors(self.directory / names.MASK, masks)
        ended = [names.METRICS, names.WEIGHTS, *([] if masks is None else [names.MASK])]
        self._write_result(result, {**written, **self._digests(*ended)})
        self.remove_checkpoints()

    def remove_checkpoints(self) -> None:
        """A finished run needs none; a process that is killed right after its result leaves them."""
        for checkpoint in checkpoints.found(self.directory).values():
            # Of no use, but no reason to fail either: the directory of a finished run may be read-only.
            with suppress(OSError):
                checkpoint.unlink()

    def copy(self, other: "Run", result: Mapping[str, Any], notes: Mapping[str, object]) -> None:
        """Copy the files of another run, except its request and result, which are this run's own."""
        own = {names.REQUEST: sealed(self.request), **notes}
        self._write_texts(own)
        copied = {name: known for name, known in reading.digests(other.directory).items() if name not in own}
        for name in copied:
            reading.verify(other.directory / name)
            write_atomically(self.directory / name, partial(shutil.copyfile, other.directory / name))
        # Their checksums are of the other run.
        self._write_metrics(reading.metric_lines(other.directory))
        self._write_result(result, {**copied, **self._digests(*own, names.METRICS)})

    def _write_texts(self, texts: Mapping[str, object]) -> None:
        for name, content in texts.items():
            write_json(self.directory / name, content)

    def _write_result(self, result: Mapping[str, Any], digests: Mapping[str, str]) -> None:
        write_json(self.directory / names.RESULT, sealed({**result, reading.DIGESTS: digests}))

    def _digests(self, *files: str) -> dict[str, str]:
        return {name: digest(self.directory / name) for name in files}


@contextmanager
def _advice() -> Iterator[None]:
    try:
        yield
    except DamagedError as error:
        raise DamagedError(f"{error}. Remove its directory to train again.") from error


def _with_pace(request: Mapping[str, Any]) -> Mapping[str, Any]:
    """In a long training, "epoch" is what `every` is by default."""
    recipe = request["recipe"]
    pruning = recipe["pruning"]
    if pruning["every"] is not None or recipe["training"]["epochs"] < FEW_EPOCHS:
        return request
    return {**request, "recipe": {**recipe, "pruning": {**pruning, "every": "epoch"}}}


def _differences(earlier: Mapping[str, Any], asked: Mapping[str, Any], prefix: str = "") -> list[str]:
    found = []
    for key in sorted({*earlier, *asked}):
        before, now = earlier.get(key), asked.get(key)
        if isinstance(before, dict) and isinstance(now, dict):
            found += _differences(before, now, f"{prefix}{key}.")
        elif before != now:
            found.append(f"{prefix}{key} is {before!r} on disk, {now!r} requested")
    return found

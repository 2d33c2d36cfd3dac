"""A run on disk: what was asked, what happened, what came out. Finished work is never done twice."""

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from asni.errors import AsniError
from asni.files import make_directory, read_json, read_tensors, write_atomically, write_json, write_tensors, write_text
from asni.recipes import Recipe

if TYPE_CHECKING:
    from torch import Tensor


def home_of(root: Path, recipe: Recipe, seed: int) -> Path:
    """The directory for all trainings of one seed, the same for every command."""
    return root / recipe.variant_name / f"seed-{seed}"


@dataclass(frozen=True)
class Job:
    """One seed of one recipe: what its trainings are asked, and in which directory each of them lives."""

    recipe: Recipe
    seed: int
    precision: str
    directory_of: Callable[[str], Path]

    def run(self, stage: str, settings: Mapping[str, Any] | None = None) -> "Run":
        """The training of that name; `settings` are a method's own, in which two runs of one name could differ."""
        request = {"recipe": self.recipe.model_dump(), "stage": stage, "seed": self.seed, "precision": self.precision}
        return Run(self.directory_of(stage), {**request, **(settings or {})})


@dataclass(frozen=True)
class Run:
    """The directory of one training.

    request.json, environment.json, metrics.jsonl, checkpoint.pt while it goes on, initial.safetensors,
    weights.safetensors, mask.safetensors (sparse methods), and result.json, which is written last: where it is, the
    run is finished.
    """

    directory: Path
    request: Mapping[str, Any]

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the directory against other processes; the lock is the kernel's, so a killed process leaves none."""
        make_directory(self.directory)
        lock = FileLock(self.directory / ".lock", timeout=0)
        try:
            lock.acquire()
        except Timeout:
            raise AsniError(
                f"another process is working in {self.directory}. Wait for it, or choose another --out."
            ) from None
        except OSError as error:
            raise AsniError(f"cannot write in {self.directory}: {error.strerror}. Choose another --out.") from error
        try:
            yield
        finally:
            lock.release()

    @property
    def finished(self) -> bool:
        """Whether the work is done; the answer to another request is refused, and so is a damaged one."""
        path = self.directory / "request.json"
        if path.exists() and (differences := _differences(read_json(path), self.request)):
            raise AsniError(
                f"{self.directory} holds another run: {'; '.join(differences)}. "
                "Choose another --out, or remove that directory."
            )
        # Read already here, so that a damaged one is named before hours of training and not after them.
        return (self.directory / "result.json").exists() and bool(self.result)

    @property
    def checkpoint(self) -> Path:
        return self.directory / "checkpoint.pt"

    @property
    def result(self) -> dict[str, Any]:
        """What came out, every number of it finite."""
        from asni.runs import reading

        try:
            return reading.finite_result(self.directory)
        except AsniError as error:
            raise AsniError(f"{error}. Remove its directory to do the work again.") from error

    @property
    def initial(self) -> "dict[str, Tensor]":
        """The values that the training started from."""
        return read_tensors(self.directory / "initial.safetensors")

    @property
    def weights(self) -> "dict[str, Tensor]":
        """The values that it ended with."""
        return read_tensors(self.directory / "weights.safetensors")

    @property
    def masks(self) -> "dict[str, Tensor]":
        """Which weights live at its end."""
        return read_tensors(self.directory / "mask.safetensors")

    def start(self, environment: Mapping[str, Any], initial: "Mapping[str, Tensor]") -> None:
        write_json(self.directory / "request.json", self.request)
        write_json(self.directory / "environment.json", environment)
        write_tensors(self.directory / "initial.safetensors", initial)

    def write_metrics(self, entries: list[dict[str, Any]]) -> None:
        write_text(self.directory / "metrics.jsonl", "".join(f"{json.dumps(entry)}\n" for entry in entries))

    def finish(
        self, weights: "Mapping[str, Tensor]", masks: "Mapping[str, Tensor] | None", result: Mapping[str, Any]
    ) -> None:
        write_tensors(self.directory / "weights.safetensors", weights)
        if masks is not None:
            write_tensors(self.directory / "mask.safetensors", masks)
        write_json(self.directory / "result.json", result)
        # It has served: what a finished run is worth is in the files above.
        self.checkpoint.unlink(missing_ok=True)

    def copy(self, other: "Run", result: Mapping[str, Any]) -> None:
        """Become what another run is, under this request and with this result."""
        write_json(self.directory / "request.json", self.request)
        for name in (
            "environment.json",
            "metrics.jsonl",
            "initial.safetensors",
            "weights.safetensors",
            "mask.safetensors",
        ):
            write_atomically(self.directory / name, partial(shutil.copyfile, other.directory / name))
        write_json(self.directory / "result.json", result)


def _differences(earlier: Mapping[str, Any], asked: Mapping[str, Any], prefix: str = "") -> list[str]:
    found = []
    for key in sorted({*earlier, *asked}):
        before, now = earlier.get(key), asked.get(key)
        if isinstance(before, dict) and isinstance(now, dict):
            found += _differences(before, now, f"{prefix}{key}.")
        elif before != now:
            found.append(f"{prefix}{key} is {before!r} there, {now!r} now")
    return found

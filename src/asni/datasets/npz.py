"""A user's own .npz file: `np.savez(path, train_images=..., train_labels=..., test_images=..., test_labels=...)`."""

import hashlib
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from asni.datasets.info import Dataset, Info
from asni.datasets.own_arrays import NAMES, Header, in_memory, sizes
from asni.errors import UsageError, unknown

READ_HEADER = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


class NpzFile:
    """Sizes and checksum come from the headers in the file, without reading the images."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def info(self) -> Info:
        with self._opened() as archive:
            headers = {name: self._header(archive, name) for name in NAMES}
            return sizes(str(self.path), headers, self._array(archive, "train_labels"))

    @property
    def checksum(self) -> str:
        """A checksum of the CRC-32 of every array."""
        with self._opened() as archive:
            members = [archive.getinfo(f"{name}.npy") for name in NAMES]
        return hashlib.sha256(repr([(each.CRC, each.file_size) for each in members]).encode()).hexdigest()

    def load(self) -> Dataset:
        with self._opened() as archive:
            arrays = {name: self._array(archive, name) for name in NAMES}
        return in_memory(str(self.path), arrays)[0]

    @contextmanager
    def _opened(self) -> Iterator[zipfile.ZipFile]:
        try:
            with zipfile.ZipFile(self.path) as archive:
                found = [member.removesuffix(".npy") for member in archive.namelist()]
                if missing := [name for name in NAMES if name not in found]:
                    raise UsageError(f"{self.path}: {unknown('array', missing[0], found)}")
                yield archive
        except FileNotFoundError:
            raise UsageError(f"no file '{self.path}' for the dataset.") from None
        except (OSError, zipfile.BadZipFile, zlib.error, EOFError) as error:
            raise UsageError(f"{self.path} cannot be read as an .npz file ({error}).") from error

    def _header(self, archive: zipfile.ZipFile, name: str) -> Header:
        with archive.open(f"{name}.npy") as file:
            return self._read_header(file, name)

    def _read_header(self, file: IO[bytes], name: str) -> Header:
        try:
            shape, _, dtype = READ_HEADER[npy.read_magic(file)](file)
        except (ValueError, KeyError) as error:
            raise UsageError(f"{self.path}: {name} is not a NumPy array ({error}).") from error
        if dtype.hasobject:
            raise UsageError(f"{self.path}: {name} holds Python objects, which are not loaded. Save it as numbers.")
        return Header(shape, dtype)

    def _array(self, archive: zipfile.ZipFile, name: str) -> NDArray[Any]:
        self._header(archive, name)
        with archive.open(f"{name}.npy") as file:
            try:
                return np.asarray(npy.read_array(file, allow_pickle=False))
            except ValueError as error:
                raise UsageError(f"{self.path}: {name} is damaged ({error}).") from error

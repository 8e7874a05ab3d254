"""Files written whole or not at all; through links, never over them."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from stormwright.base.files import delete_abandoned, is_standard_output, write_whole, writing

OLD, NEW = b"what was there", b"what is new, and longer"


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_a_link_stays_and_its_target_is_written(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    target, link, second = tmp_path / "deep" / "target", tmp_path / "link", tmp_path / "second"
    target.write_bytes(OLD)
    link.symlink_to("deep/target")
    second.symlink_to(link)
    write_whole(second, NEW)
    assert target.read_bytes() == NEW
    assert second.readlink() == link
    assert str(link.readlink()) == "deep/target"
    assert names(tmp_path) == ["deep", "link", "second"]
    assert names(tmp_path / "deep") == ["target"]


def test_a_dangling_link_gets_its_target(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "target")
    write_whole(link, NEW)
    assert link.is_symlink()
    assert (tmp_path / "target").read_bytes() == NEW


def test_links_in_a_circle(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(OSError, match="Too many levels"):
        write_whole(tmp_path / "a", NEW)


def test_hard_link_is_preserved(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.write_bytes(OLD)
    os.link(one, other)
    write_whole(one, NEW)
    assert other.read_bytes() == NEW
    assert one.samefile(other)


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o755])
def test_file_mode_is_preserved(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "file"
    path.write_bytes(OLD)
    path.chmod(mode)
    with writing(path) as file:
        (partial,) = [other for other in tmp_path.iterdir() if other != path]
        assert stat.S_IMODE(partial.stat().st_mode) == mode
        file.write(NEW)
    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert path.read_bytes() == NEW


def test_new_file_has_the_mode_permitted_by_umask(tmp_path: Path) -> None:
    (tmp_path / "plain").write_bytes(OLD)
    write_whole(tmp_path / "file", NEW)
    assert (tmp_path / "file").stat().st_mode == (tmp_path / "plain").stat().st_mode


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_file_owner_is_preserved(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(OLD)
    os.chown(path, 12345, 23456)
    write_whole(path, NEW)
    assert (path.stat().st_uid, path.stat().st_gid) == (12345, 23456)


def test_the_link_of_a_descriptor_is_written_through_and_stays(tmp_path: Path) -> None:
    """As ``/dev/stdout`` is one; what is written next comes behind it."""
    target, link = tmp_path / "target", tmp_path / "stdout"
    with target.open("wb") as file:
        file.write(OLD)
        file.flush()
        link.symlink_to(f"/proc/self/fd/{file.fileno()}")
        write_whole(link, NEW)
        file.write(b".")
    assert str(link.readlink()).startswith("/proc/self/fd/")
    assert target.read_bytes() == OLD + NEW + b"."
    assert names(tmp_path) == ["stdout", "target"]


def test_standard_output_is_known_by_any_name(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/proc/self/fd/1")
    (tmp_path / "file").write_bytes(OLD)
    assert is_standard_output(tmp_path / "link")
    assert is_standard_output(Path("/proc/self/fd/1"))
    assert not is_standard_output(Path("/proc/self/fd/2"))
    assert not is_standard_output(tmp_path / "file")
    assert not is_standard_output(tmp_path / "nowhere" / "file")


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    write_whole(pipe, NEW)
    reader.join()
    assert read == [NEW]
    assert pipe.is_fifo()


def test_a_device_is_written_to() -> None:
    """Opened alone: nothing is ever made beside one."""
    with pytest.raises(OSError, match="No space left"):
        write_whole(Path("/dev/full"), NEW)
    assert Path("/dev/full").is_char_device()


@pytest.mark.parametrize("there", [True, False])
def test_old_content_is_visible_until_the_write_completes(tmp_path: Path, there: bool) -> None:
    path = tmp_path / "file"
    if there:
        path.write_bytes(OLD)

    def write() -> None:
        with writing(path) as file:
            file.write(NEW)
            file.flush()
            assert (path.read_bytes() if there else None) == (OLD if there else None)
            raise InterruptedError

    with pytest.raises(InterruptedError):
        write()
    assert names(tmp_path) == (["file"] if there else [])
    assert not there or path.read_bytes() == OLD


FULL = """
import resource, signal, sys
from pathlib import Path
from stormwright.base.files import write_whole
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    write_whole(Path(sys.argv[1]), b"x" * 100_000)
except OSError as error:
    print(error.strerror)
"""


def test_failed_write_leaves_the_old_file_intact(tmp_path: Path) -> None:
    """A limit on the size of files ends a write half-way, as a full disk does."""
    path = tmp_path / "file"
    path.write_bytes(OLD)
    done = subprocess.run([sys.executable, "-c", FULL, path], capture_output=True, text=True, check=True)
    assert done.stdout == "File too large\n"
    assert path.read_bytes() == OLD
    assert names(tmp_path) == ["file"]


def test_file_and_directory_are_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    fsync = os.fsync

    def noted(number: int) -> None:
        synced.append("directory" if stat.S_ISDIR(os.fstat(number).st_mode) else "file")
        fsync(number)

    monkeypatch.setattr("os.fsync", noted)
    write_whole(tmp_path / "file", NEW)
    assert synced == ["file", "directory"]


def test_file_is_written_to_an_unlistable_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As root everything may be read."""
    opened, waited = os.open, []

    def unlisted(path: os.PathLike, flags: int, *how: int) -> int:
        if flags & os.O_DIRECTORY:
            raise PermissionError(13, "Permission denied", str(path))
        return opened(path, flags, *how)

    monkeypatch.setattr(os, "open", unlisted)
    monkeypatch.setattr(os, "sync", lambda: waited.append(True))
    write_whole(tmp_path / "file", b"whole")
    assert (tmp_path / "file").read_bytes() == b"whole"
    assert waited == [True]


def test_existing_partial_file_or_link_is_not_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link that someone laid where the new file would be made leads nowhere."""
    monkeypatch.setattr(os, "urandom", bytes)
    (tmp_path / "precious").write_bytes(OLD)
    (tmp_path / f".file.{'0' * 16}.partial").symlink_to(tmp_path / "precious")
    with pytest.raises(FileExistsError):
        write_whole(tmp_path / "file", NEW)
    assert (tmp_path / "precious").read_bytes() == OLD


def test_partial_files_of_killed_processes_are_deleted(tmp_path: Path) -> None:
    abandoned, young, other = (tmp_path / name for name in (f".a.{'1' * 16}.partial", f".b.{'2' * 16}.partial", ".c"))
    for path in (abandoned, young, other):
        path.write_bytes(OLD)
    for path in (abandoned, other):
        os.utime(path, (1, 1))
    delete_abandoned(tmp_path)
    assert names(tmp_path) == sorted([young.name, other.name])

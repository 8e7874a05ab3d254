"""The landing directory."""

from __future__ import annotations

import os
import stat
import threading
import time
from pathlib import Path

import pytest

from stormwright.base.clock import WallClock
from stormwright.perflog import Landing


def test_files_appear_whole_and_in_order(tmp_path: Path) -> None:
    landing = Landing(tmp_path / "deep" / "landing")
    paths = [landing.write([b"a", b"b\n"]), landing.write([b"c\r\n", b"", b"d"])]
    assert landing.files() == paths
    assert [path.read_bytes() for path in landing.files()] == [b"a\nb\n", b"c\nd\n"]
    assert list(landing.directory.iterdir()) != []
    assert all(not path.name.startswith(".") for path in landing.directory.iterdir())


def test_nothing_is_written_for_nothing(tmp_path: Path) -> None:
    landing = Landing(tmp_path)
    assert landing.write([]) is None
    assert landing.write([b"", b"\n"]) is None
    assert list(tmp_path.iterdir()) == []


def test_failed_write_leaves_no_readable_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    landing = Landing(tmp_path)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        landing.write([b"a"])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
def test_threads_share_files_and_lose_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gap_s = 0.01
    monkeypatch.setattr("stormwright.perflog.landing.GAP_S", gap_s)
    landing = Landing(tmp_path)
    written: dict[bytes, Path | None] = {}

    def deliver(thread: int) -> None:
        for number in range(20):
            line = f"{thread}-{number}".encode()
            written[line] = landing.write([line])

    begun = time.monotonic()
    threads = [threading.Thread(target=deliver, args=[thread]) for thread in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    most = (time.monotonic() - begun) / gap_s + 1
    landed = {line: path for path in landing.files() for line in path.read_bytes().splitlines()}
    assert landed == written
    assert len(written) == 160
    assert len(landing.files()) <= most


def test_infrequent_delivery_is_written_without_delay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    landing = Landing(tmp_path)
    waited: list[float] = []
    now_s = iter([0.0, 1.0, 100.0, 100.0])
    monkeypatch.setattr("time.sleep", waited.append)
    monkeypatch.setattr("time.monotonic", lambda: next(now_s))
    for _ in range(2):
        landing.write([b"x"])
    assert waited == [0, 0]


def test_names_stay_in_order_when_the_clock_is_set_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    landing = Landing(tmp_path)
    times = iter([2_000, 1_000, 1_000])
    monkeypatch.setattr("time.time_ns", lambda: next(times))
    written = [landing.write([b"x"]) for _ in range(3)]
    assert landing.files() == written


def test_the_name_of_a_file_is_on_disk_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A probe forgets what it has delivered: a power failure after that may take nothing."""
    landing = Landing(tmp_path)
    synced: list[bool] = []
    fsync = os.fsync

    def noted(number: int) -> None:
        synced.append(stat.S_ISDIR(os.fstat(number).st_mode))
        fsync(number)

    monkeypatch.setattr("os.fsync", noted)
    landing.write([b"a"])
    assert synced == [False, True]


def test_partial_file_of_a_killed_service_is_deleted(tmp_path: Path) -> None:
    begun = tmp_path / f".0001-1.jsonl.{'0' * 16}.partial"
    begun.write_bytes(b"half")
    os.utime(begun, (1, 1))
    Landing(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_failed_landing_is_never_acknowledged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail_once(path: Path, data: bytes, modified_s: float | None) -> None:
        monkeypatch.undo()
        raise MemoryError

    def deliver() -> None:
        with pytest.raises(MemoryError):
            landing.write([b"x"])
        calls.append(1)

    landing, calls = Landing(tmp_path), list[int]()
    monkeypatch.setattr("stormwright.perflog.landing.write_whole", fail_once)
    threads = [threading.Thread(target=deliver) for _ in range(3)]
    with landing._writing:  # noqa: SLF001
        for thread in threads:
            thread.start()
        while len(landing._waiting) < len(threads):  # noqa: SLF001
            time.sleep(0.001)
    for thread in threads:
        thread.join()
    assert calls == [1, 1, 1]


def test_landed_file_has_modification_time_of_cluster_clock(tmp_path: Path) -> None:
    """By a file's time the pipeline recognizes which records are late, and which come from a clock that is ahead."""

    class Virtual(WallClock):
        def time(self) -> float:
            return 1_795_219_140.25

    landed = Landing(tmp_path, Virtual()).write([b"x"])
    assert landed is not None
    assert landed.stat().st_mtime == 1_795_219_140.25

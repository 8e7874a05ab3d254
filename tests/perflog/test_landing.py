"""The landing directory."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

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


def test_a_write_that_fails_leaves_no_file_to_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    landing = Landing(tmp_path)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        landing.write([b"a"])
    assert landing.files() == []


def test_threads_get_names_of_their_own(tmp_path: Path) -> None:
    landing = Landing(tmp_path)
    threads = [threading.Thread(target=lambda: [landing.write([b"x"]) for _ in range(20)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(landing.files()) == 80


def test_names_stay_in_order_when_the_clock_is_set_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    landing = Landing(tmp_path)
    times = iter([2_000, 1_000, 1_000])
    monkeypatch.setattr("time.time_ns", lambda: next(times))
    written = [landing.write([b"x"]) for _ in range(3)]
    assert landing.files() == written

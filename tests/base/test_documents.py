"""Documents that survive restarts, and damaged ones."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from stormwright.base.documents import FileDocument, read_or_default


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.json"


def load(path: Path) -> list[int]:
    return read_or_default(FileDocument(path), lambda text: list(json.loads(text)["known"]), list, "all is lost")


def test_missing_document_is_the_default_and_saved_one_is_read(path: Path) -> None:
    assert load(path) == []
    FileDocument(path).save('{"known": [1]}')
    assert load(path) == [1]


@pytest.mark.parametrize("content", [b"{", b"[]", b"{}", b"\x00", b"\xff"])
def test_damaged_document_is_set_aside(path: Path, content: bytes, caplog: pytest.LogCaptureFixture) -> None:
    path.write_bytes(content)
    with caplog.at_level(logging.WARNING):
        assert load(path) == []
    assert path.with_suffix(".damaged").read_bytes() == content
    assert "all is lost" in caplog.text


def test_unreadable_document_stays(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path.mkdir()
    with caplog.at_level(logging.WARNING):
        assert load(path) == []
    assert path.is_dir()
    assert "cannot be read" in caplog.text

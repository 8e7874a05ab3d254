"""Files that are kept over restarts, and damaged ones."""

from __future__ import annotations

import json
import logging

import pytest

from stormwright.state_files import load_or_default


@pytest.fixture
def path(tmp_path):
    return tmp_path / "kept.json"


def kept(path):
    return load_or_default(path, lambda: json.loads(path.read_bytes())["known"], list, "all is learnt again")


def test_what_is_there_is_read(path):
    assert kept(path) == []
    path.write_text('{"known": [1]}')
    assert kept(path) == [1]


@pytest.mark.parametrize("text", ["{", "[]", "{}", "\x00"])
def test_what_makes_no_sense_is_put_aside(path, text, caplog):
    path.write_text(text)
    with caplog.at_level(logging.WARNING):
        assert kept(path) == []
    assert path.with_suffix(".damaged").read_text() == text
    assert "all is learnt again" in caplog.text


def test_what_cannot_be_read_now_stays(path, caplog):
    path.mkdir()
    with caplog.at_level(logging.WARNING):
        assert kept(path) == []
    assert path.is_dir()
    assert "cannot be read" in caplog.text

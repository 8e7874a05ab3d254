"""What is refused before Spark starts."""

from __future__ import annotations

import importlib
import os
from pathlib import Path

import pytest

import stormwright.pipeline
from stormwright.errors import InputError, MissingDependencyError
from stormwright.pipeline.settings import StreamSettings
from stormwright.pipeline.spark.session import require_java


def test_all_faults_are_reported_at_once() -> None:
    with pytest.raises(InputError) as caught:
        StreamSettings(window_s=0, late_s=-1)
    assert [fault.path for fault in caught.value.faults] == ["$.window_s", "$.late_s"]


def test_a_window_is_made_of_whole_panes() -> None:
    with pytest.raises(InputError, match=r"window_s 15 is no multiple of slide_s 4 @ \$\.window_s"):
        StreamSettings(slide_s=4)


def test_core_speed_of_a_supervisor_comes_before_the_general_one() -> None:
    settings = StreamSettings(core_hz=2e9, core_hz_of={"fast": 4e9})
    assert settings.core_hz_at("fast", 3e9) == 4e9
    assert settings.core_hz_at("other", 3e9) == 2e9
    assert StreamSettings().core_hz_at("other", 3e9) == 3e9


def fake_java(home: Path, says: str) -> None:
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    java.chmod(0o755)


def test_no_java_is_one_clear_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingDependencyError, match=r"Java 17 or later.*none found \(JAVA_HOME is not set"):
        require_java()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(MissingDependencyError, match=r"none found \(JAVA_HOME is "):
        require_java()


@pytest.mark.parametrize(
    ("says", "complaint"),
    [
        ('openjdk version "11.0.2" 2019-01-15', "is version 11"),
        ('java version "1.8.0_292"', "is version 8"),
        ("?", "says"),
    ],
)
def test_the_wrong_java_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str, complaint: str) -> None:
    fake_java(tmp_path, says)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(MissingDependencyError, match=complaint):
        require_java()


@pytest.mark.parametrize("says", ['openjdk version "17.0.15" 2025-04-15', 'openjdk version "25" 2025-09-16'])
def test_a_recent_java_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str) -> None:
    fake_java(tmp_path, says)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    require_java()
    assert os.environ["JAVA_HOME"] == str(tmp_path)


def test_without_pyspark_the_pipeline_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(MissingDependencyError, match=r"needs pyspark: pip install 'stormwright\[spark\]'"):
        importlib.reload(stormwright.pipeline)


def test_the_stream_remembers_longer_than_records_count() -> None:
    """By the 5 s that a clock may be ahead, and a little for files that land out of order."""
    assert StreamSettings(late_s=30).watermark_s >= 35

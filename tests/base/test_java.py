"""Which Java is found, and the message where there is none that will do."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stormwright.base.java import find_java
from stormwright.errors import MissingDependencyError


def fake_java(home: Path, says: str) -> None:
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    java.chmod(0o755)


def test_missing_java_error_is_one_clear_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingDependencyError, match=r"Java 17 or later.*none found \(JAVA_HOME is not set"):
        find_java("Spark")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(MissingDependencyError, match=r"none found \(JAVA_HOME is "):
        find_java("Spark")


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
        find_java("Spark")


@pytest.mark.parametrize("says", ['openjdk version "17.0.15" 2025-04-15', 'openjdk version "25" 2025-09-16'])
def test_a_recent_java_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str) -> None:
    fake_java(tmp_path, says)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    find_java("Spark")
    assert os.environ["JAVA_HOME"] == str(tmp_path)

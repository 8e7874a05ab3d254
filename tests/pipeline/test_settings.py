"""What is refused before Spark starts."""

from __future__ import annotations

import importlib

import pytest

import stormwright.pipeline
from stormwright.errors import InputError, MissingDependencyError
from stormwright.pipeline.settings import StreamSettings


def test_all_faults_are_reported_at_once() -> None:
    with pytest.raises(InputError) as caught:
        StreamSettings(window_s=0, late_s=-1)
    assert [fault.path for fault in caught.value.faults] == ["$.window_s", "$.late_s"]


def test_a_window_is_made_of_whole_panes() -> None:
    with pytest.raises(InputError, match=r"window_s 15 is no multiple of slide_s 4 @ \$\.window_s"):
        StreamSettings(slide_s=4)


@pytest.mark.parametrize("percent", [0, -1, 101, float("nan")])
def test_a_part_of_the_cpu_is_a_part(percent: float) -> None:
    with pytest.raises(InputError, match=r"must be above 0, at most 100 @ \$\.overload_percent"):
        StreamSettings(overload_percent=percent)


def test_core_speed_of_supervisor_overrides_general_value() -> None:
    settings = StreamSettings(core_hz=2e9, core_hz_of={"fast": 4e9})
    assert settings.core_hz_at("fast", 3e9) == 4e9
    assert settings.core_hz_at("other", 3e9) == 2e9
    assert StreamSettings().core_hz_at("other", 3e9) == 3e9


def test_pipeline_without_pyspark_names_package_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(MissingDependencyError, match=r"needs pyspark: pip install 'stormwright\[spark\]'"):
        importlib.reload(stormwright.pipeline)


def test_the_stream_remembers_longer_than_records_count() -> None:
    """By the 5 s that a clock may be ahead, and a little for files that land out of order."""
    assert StreamSettings(late_s=30).watermark_s >= 35

"""The same pipeline over files that are at rest."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import SparkSession

from stormwright.model import LoadProfile, Problem
from stormwright.pipeline.ledger import Ledger
from stormwright.pipeline.live import LiveState
from stormwright.pipeline.measurement import Measurement, measure
from stormwright.pipeline.plan import pipeline, unpacked
from stormwright.pipeline.settings import StreamSettings
from stormwright.pipeline.source import read_files
from stormwright.pipeline.windows import worker_seconds


def measure_files(
    spark: SparkSession, files: Sequence[Path], settings: StreamSettings | None = None
) -> tuple[Measurement | None, Ledger]:
    """What the records in files say about their last window, and what became of every line.

    Whatever order the records came in, none is late.
    """
    settings = settings or StreamSettings()
    facts, audit = unpacked(pipeline(read_files(spark, files), settings).toArrow())
    state = LiveState().after(0, facts, audit, settings)
    return measure(state.panes, worker_seconds(facts), settings), state.ledger


def load_profile(
    spark: SparkSession, files: Sequence[Path], problem: Problem, settings: StreamSettings | None = None
) -> LoadProfile | None:
    """The load in the last window of the records in files; None where there is no record."""
    measurement, _ = measure_files(spark, files, settings)
    return measurement.profile(problem).load if measurement else None

"""Files over which a batch fails: found, and set aside whole so that the stream goes on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from pyspark.sql import SparkSession

from stormwright.perflog.landing import SUFFIX, Landing
from stormwright.pipeline.lines.quarantine import Quarantine
from stormwright.pipeline.lines.source import read_files
from stormwright.pipeline.plan import batch_of, prepared
from stormwright.pipeline.run.live import LiveState
from stormwright.pipeline.settings import StreamSettings
from stormwright.pipeline.spark.scratch import scratch

#: Says why files cannot be processed, None where they can.
_Failure = Callable[[Sequence[Path]], str | None]


def set_poison_aside(spark: SparkSession, landing: Path, quarantine: Quarantine, settings: StreamSettings) -> None:
    """Move landed files that cannot be processed to the quarantine.

    1. Each is tried as the only file of a batch, so what fails for another reason than the file stays.
    2. Nothing is moved where not even a harmless file can be processed: then it is the machine.

    Parameters
    ----------
    spark
        Session that tries them, while no query of the stream runs.
    landing
        Directory of the stream's files.
    quarantine
        Takes the files, with the reason.
    settings
        Of the stream; they tell how many of the oldest files its last batch can have had. Others are not tried.
    """
    landed = sorted(landing.glob(f"*{SUFFIX}"), key=lambda path: path.stat().st_mtime_ns)
    # A batch takes the oldest; before them may be those of the last one, which are not deleted yet.
    files = landed[: 2 * settings.max_files_per_batch]
    with scratch("poison") as directory:

        def failure(tried: Sequence[Path]) -> str | None:
            try:
                LiveState().after(
                    0, *batch_of(prepared(read_files(spark, tried), settings), LiveState(), settings), settings
                )
            except Exception as error:  # whatever a batch may fail with
                return f"{type(error).__name__}: {error}".splitlines()[0]
            return None

        found = poisonous(files, failure)
        harmless = Landing(directory / "landing").write([b"{}"])
        if harmless is None or failure([harmless]):  # (2)
            return
    for path, reason in found.items():
        if path.exists():
            quarantine.set_aside(path, f"the whole file, over which a batch fails: {reason}")


def poisonous(files: Sequence[Path], failure: _Failure) -> dict[Path, str]:
    """The files that fail alone, with the reason; found by halving, for most are good."""
    reason = failure(files) if files else None
    if reason is None:
        return {}
    if len(files) == 1:
        return {files[0]: reason}
    middle = len(files) // 2
    return poisonous(files[:middle], failure) | poisonous(files[middle:], failure)

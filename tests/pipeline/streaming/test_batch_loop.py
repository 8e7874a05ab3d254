"""When batches run."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError, Py4JNetworkError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from stormwright.perflog import Landing
from stormwright.pipeline.parsing.source import waiting_files
from stormwright.pipeline.settings import StreamSettings
from stormwright.pipeline.streaming.batch_loop import BatchLoop
from tests.pipeline.waiting import wait


class JobError(Py4JJavaError):
    """An exception of Java."""

    def __init__(self, message: str) -> None:
        Exception.__init__(self, message)
        self.java_exception = message


@pytest.mark.parametrize(
    ("error", "ended"),
    [
        (JobError("org.apache.spark.SparkException: task 1 failed\n\tat a.b"), False),
        (JobError("java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext."), True),
        (Py4JNetworkError("Answer from Java side is empty"), True),
        (ConnectionRefusedError("connection refused"), True),
        (PySparkException("[FAILED]"), False),
        (OSError("no space left on device"), False),
    ],
)
def test_only_the_end_of_spark_ends_batches(tmp_path: Path, error: Exception, ended: bool) -> None:
    """A failed job is repeated."""
    due = [error]

    def take(files: Sequence[Path]) -> None:
        if due:
            raise due.pop()
        files[0].unlink()

    Landing(tmp_path).write([b"1"])
    loop = BatchLoop(partial(waiting_files, tmp_path), take, lambda: None, lambda: None, StreamSettings(trigger_s=0.1))
    loop.start()
    wait(lambda: not loop.running if ended else not list(tmp_path.iterdir()), lambda: loop.error)
    wait(lambda: (loop.error is not None) == ended, lambda: loop.error)
    loop.stop()
    assert (loop.error or "").startswith("Spark has ended: ") == ended


@pytest.mark.slow
def test_batch_that_is_too_large_shrinks_until_it_succeeds(tmp_path: Path) -> None:
    sizes: list[int] = []

    def take(files: Sequence[Path]) -> None:
        sizes.append(len(files))
        if len(files) > 3:
            raise MemoryError
        for path in files:
            path.unlink()

    landing = Landing(tmp_path)
    for number in range(10):
        landing.write([b"%d" % number])
    settings = StreamSettings(trigger_s=0.1, max_files_per_batch=8)
    loop = BatchLoop(partial(waiting_files, tmp_path), take, lambda: None, lambda: None, settings)
    loop.start()
    wait(lambda: not list(tmp_path.iterdir()), lambda: sizes)
    loop.stop()
    assert sizes[:3] == [8, 4, 2]


def test_batches_follow_sooner_while_somebody_watches(tmp_path: Path) -> None:
    landing = Landing(tmp_path)
    taken: list[str] = []

    def take(files: Sequence[Path]) -> None:
        for path in files:
            taken.append(path.read_text().strip())
            path.unlink()

    settings = StreamSettings(trigger_s=600, prompt_trigger_s=0.1)
    loop = BatchLoop(partial(waiting_files, tmp_path), take, lambda: None, lambda: None, settings)
    landing.write([b"1"])
    loop.start()
    try:
        wait(lambda: taken == ["1"], lambda: taken)
        landing.write([b"2"])
        time.sleep(0.5)
        assert taken == ["1"]
        loop.run_promptly()
        wait(lambda: taken == ["1", "2"], lambda: taken)
    finally:
        loop.stop()

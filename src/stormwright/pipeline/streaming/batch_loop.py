"""Batches over a landing directory: when they run, and how failures are handled."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from errno import EDQUOT, EMFILE, ENFILE, ENOSPC
from pathlib import Path

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from stormwright.errors import StormwrightError
from stormwright.perflog.landing import SUFFIX
from stormwright.perflog.records import encode
from stormwright.perflog.schema import sample_record
from stormwright.pipeline.parsing.quarantine import Quarantine
from stormwright.pipeline.parsing.source import waiting_files
from stormwright.pipeline.settings import StreamSettings
from stormwright.pipeline.spark.query_supervisor import FIRST_PAUSE_S, LONGEST_PAUSE_S, cause
from stormwright.pipeline.spark.scratch import scratch

#: Seconds between calls of `tidy`.
TIDY_S = 60.0

#: Seconds between looks at the landing directory.
POLL_S = 0.1

#: Seconds for which results are prompt once somebody has watched them.
PROMPT_S = 10.0

#: Processes landed files as one batch.
Take = Callable[[Sequence[Path]], object]


class BatchLoop:
    """Processes the files of a landing directory in batches, from a thread, until it is stopped.

    A batch begins `StreamSettings.trigger_s` after the last one at the earliest, and only if files wait. For a while
    after `run_promptly` it begins so early that it ends, if it takes as long as the last one, `prompt_trigger_s` after
    that one began. A failed batch is retried with half as many files, after a pause that doubles each time. After two
    failures, files that fail as the only one of a batch are quarantined.

    Parameters
    ----------
    waiting
        Returns landed files that are in no batch yet, oldest first, up to a maximum number.
    take
        Processes the files of one batch; raises if that fails.
    examine
        Sets files aside that cannot be processed.
    tidy
        Called about once a minute.
    settings
        Settings of the stream.
    """

    def __init__(
        self,
        waiting: Callable[[int], Sequence[Path]],
        take: Take,
        examine: Callable[[], None],
        tidy: Callable[[], None],
        settings: StreamSettings,
    ) -> None:
        self._waiting, self._take, self._examine, self._tidy = waiting, take, examine, tidy
        self._settings = settings
        self._stopping = threading.Event()
        self._failures = 0
        self._tidied_s = time.monotonic()
        #: When the last completed batch began, and until when batches follow promptly (`time.monotonic`).
        self._begun_s = self._prompt_until_s = -math.inf
        #: Why the last batch failed, if none has completed since, or why the loop has ended.
        self.error: str | None = None
        self.restarts = 0
        #: Duration of the last completed batch; None before.
        self.batch_ms: int | None = None
        self._thread = threading.Thread(target=self._run, name="stormwright-batches", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop after the current batch."""
        self._stopping.set()
        self._thread.join()

    def run_promptly(self) -> None:
        """Process files for the next seconds as soon as `StreamSettings.prompt_trigger_s` demands."""
        self._prompt_until_s = time.monotonic() + PROMPT_S

    @property
    def running(self) -> bool:
        """Whether batches are processed as files land."""
        return self._thread.is_alive()

    def _run(self) -> None:
        wait_s = 0.0
        while not self._stopping.wait(wait_s):
            try:
                self._next_batch()
            except Exception as error:  # whatever a batch may fail with
                if has_ended(error):
                    self.error = f"Spark has ended: {failure_cause(error)}"
                    return
                wait_s = self._after_failure(error)
                continue
            wait_s = POLL_S

    def _next_batch(self) -> None:
        """Process the files that wait, if it is time for a batch."""
        if time.monotonic() - self._tidied_s > TIDY_S:
            self._tidy()
            self._tidied_s = time.monotonic()
        if time.monotonic() < self._begun_s + self._interval_s:
            return
        files = self._waiting(self._most_files)
        if files and self._failures > 1:
            self._examine()
            files = self._waiting(self._most_files)
        if not files:
            return
        begun = time.monotonic()
        self._take(files)
        self._begun_s = begun
        self.batch_ms = round(1000 * (time.monotonic() - begun))
        self._failures, self.error = 0, None

    @property
    def _most_files(self) -> int:
        """Maximum number of files of the next batch: halved by each failure, as the batch may have been too large."""
        return max(1, self._settings.max_files_per_batch >> self._failures)

    @property
    def _interval_s(self) -> float:
        """Time from the beginning of a batch to that of the next."""
        trigger_s, prompt_s = self._settings.trigger_s, self._settings.prompt_trigger_s
        is_prompt = time.monotonic() < self._prompt_until_s
        return min(trigger_s, prompt_s - (self.batch_ms or 0) / 1000) if is_prompt else trigger_s

    def _after_failure(self, error: Exception) -> float:
        """Note a failure and return the seconds until the batch is repeated."""
        self._failures += 1
        self.restarts += 1
        self.error = failure_cause(error)
        return float(min(FIRST_PAUSE_S * 2 ** (self._failures - 1), LONGEST_PAUSE_S))


def failure_cause(error: Exception) -> str:
    """Return one line about why a batch failed."""
    if isinstance(error, StormwrightError):
        return error.line
    if isinstance(error, Py4JJavaError):
        return cause(str(error.java_exception))
    return cause(str(error)) if isinstance(error, PySparkException) else f"{type(error).__name__}: {error}"


def has_ended(error: Exception) -> bool:
    """Return whether an error means that Spark has ended, not that a job has failed."""
    if isinstance(error, Py4JJavaError):
        return "stopped SparkContext" in str(error.java_exception)
    return isinstance(error, Py4JError | ConnectionError)


# Files that fail ----------------------------------------------------------------------------------
# Detection of files over which a batch fails; they are set aside whole so that the stream continues.

#: Errors of the machine, whatever the file: no space, no more open files.
_OF_THE_MACHINE = {ENOSPC, EDQUOT, EMFILE, ENFILE}

#: Returns why files cannot be processed, None if they can.
_Failure = Callable[[Sequence[Path]], str | None]


def quarantine_failing_files(take: Take, landing: Path, quarantine: Quarantine, settings: StreamSettings) -> None:
    """Move landed files that cannot be processed to the quarantine.

    1. Each is tried as the only file of a batch, so that failures with other causes move no file.
    2. Nothing is moved unless a valid record can be processed, before and after; otherwise the machine is the cause.

    Parameters
    ----------
    take
        Processes files as a batch without an effect.
    landing
        Directory of the stream's files.
    quarantine
        Quarantine that receives the files, with the reason.
    settings
        Settings of the stream; only as many of the oldest files as a batch can have had are tried.

    Raises
    ------
    Exception
        What `take` raises for a valid record.
    """
    files = waiting_files(landing, settings.max_files_per_batch)

    def failure(tried: Sequence[Path]) -> str | None:
        try:
            take(tried)
        except Exception as error:  # whatever a batch may fail with
            if has_ended(error) or (isinstance(error, OSError) and error.errno in _OF_THE_MACHINE):
                raise
            return failure_cause(error)
        return None

    with scratch("valid-record") as directory:
        valid = directory / f"valid{SUFFIX}"
        valid.write_bytes(encode(sample_record(round(time.time() * 1000) - 1000)))
        take([valid])  # (2)
        if found := failing_files(files, failure):
            take([valid])
    for path, reason in found.items():
        if path.exists():
            quarantine.set_aside(path, f"the whole file, over which a batch fails: {reason}")


def failing_files(files: Sequence[Path], failure: _Failure) -> dict[Path, str]:
    """Return the files that fail alone, with the reason; found by bisection."""
    reason = failure(files) if files else None
    if reason is None:
        return {}
    if len(files) == 1:
        return {files[0]: reason}
    middle = len(files) // 2
    return failing_files(files[:middle], failure) | failing_files(files[middle:], failure)

"""Settings of the pipeline."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from stormwright.errors import Fault, InputError
from stormwright.perflog.records import MAX_CLOCK_AHEAD_MS
from stormwright.pipeline.spark.target import HOST_AND_PORT, addresses_in

#: Rates: some hundred records a second beside the monitored system, or thousands with all cores.
RecordRate: TypeAlias = Literal["low", "high"]

#: Version of the stored state of a stream. State of the version before is taken over: its panes lack columns, which are
#: unknown. Of any other version it is ignored and a new one begun.
STATE_VERSION = 4

#: Files of several writers become visible a little out of order.
ORDER_SLACK_S = 5


#: Options of Spark's Kafka source that follow from other settings → the setting.
_KAFKA_OPTIONS = {
    "kafka.bootstrap.servers": "the brokers",
    **dict.fromkeys(("subscribe", "subscribepattern", "assign"), "the topic"),
}


#: Options of Spark's Kafka source that are whole numbers, in lower case.
_KAFKA_NUMBERS = frozenset(
    {
        "maxoffsetspertrigger",
        "minoffsetspertrigger",
        "minpartitions",
        "maxrecordsperpartition",
        "fetchoffset.numretries",
        "fetchoffset.retryintervalms",
        "kafkaconsumer.polltimeoutms",
        "startingtimestamp",
        "endingtimestamp",
    }
)


@dataclass(frozen=True)
class KafkaTopic:
    """A Kafka topic that a stream reads.

    Parameters
    ----------
    brokers
        Addresses, ``HOST:PORT`` separated by commas, of one or more brokers.
    name
        Name of the topic.
    options
        Further options of Spark's Kafka source, such as ``kafka.security.protocol`` or ``startingOffsets``.
    jars
        Directory with the jars of Spark's Kafka connector; None to fetch them from a Maven repository.

    Raises
    ------
    InputError
        On creation: an invalid address or name, or an option that follows from these; all faults at once.
    """

    brokers: str
    name: str
    options: Mapping[str, str] = field(default_factory=dict)
    jars: Path | None = None

    def __post_init__(self) -> None:
        faults = [
            Fault(f"{address!r} should be HOST:PORT", "$.brokers")
            for address in self.brokers.split(",")
            if not re.fullmatch(HOST_AND_PORT, address)
        ]
        if not re.fullmatch(r"[A-Za-z0-9._-]{1,249}", self.name) or self.name in (".", ".."):
            what = f"{self.name!r} is no name of a topic: at most 249 letters, digits, dots, dashes and underscores"
            faults.append(Fault(what, "$.name"))
        faults += [
            Fault(f"{key} follows from {_KAFKA_OPTIONS[key.lower()]}: leave it out", "$.options")
            for key in self.options
            if key.lower() in _KAFKA_OPTIONS
        ]
        faults += [
            Fault(f"{key} should be a whole number, at least 0, got {value!r}", "$.options")
            for key, value in self.options.items()
            if key.lower() in _KAFKA_NUMBERS and not re.fullmatch(r"\d{1,18}", value, re.ASCII)
        ]
        if self.jars is not None and self.jars.is_dir() and not any(self.jars.glob("*.jar")):
            faults.append(Fault(f"{self.jars} has no jar: put those of Spark's Kafka connector there", "$.jars"))
        if faults:
            raise InputError("Kafka", faults)

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Hosts and ports of the brokers."""
        return addresses_in(self.brokers)


@dataclass(frozen=True)
class StreamSettings:
    """Settings for the way from the performance log to a `LoadProfile`.

    Parameters
    ----------
    window_s, slide_s
        Length of the sliding windows that loads are averaged over, and how far apart they begin. The newest profile
        always holds the newest record and reaches back at least ``window_s - slide_s``.
    late_s
        Maximum time from the begin of a record's interval until it lands; a later one goes to quarantine. More than
        the probes' interval.
    settle_s
        The last seconds of a node's CPU are not checked for overload, as its workers may not all have reported. A
        shorter silence of a worker is bridged as lost records.
    history_s
        Maximum time for which the overload of a node is tracked.
    core_hz, core_hz_of
        Speed of one core in Hz, and exceptions by supervisor. Default: the problem's own `core_hz`.
    trigger_s, prompt_trigger_s
        Time between the begins of two batches; and while somebody watches the results
        (`LoadStream.measure_promptly`), from the begin of a batch to the end of the next.
    max_files_per_batch
        Maximum landed files per batch; the others wait for the next.
    keep_raw_s
        Retention of processed files for backfills; 0 deletes them at once.
    rate
        "low" for live records: Spark takes one core and little memory, and compiles little. "high" for hours of records
        at once: Spark takes all cores, and a batch of few records costs more. None for high if a backlog has landed
        when a stream starts.
    overload_percent
        Percent of a node's CPU from which it counts as overloaded in a profile; alarms use 100 %.
    alarm_after_s
        X: an alarm is raised for a node that has been at or over its capacity for longer; None for no alarms.
    heap_mb, niceness
        Heap and niceness of the Spark JVM, which shares its machine with the monitored system.
    kafka
        Topic whose messages are landed, besides the files of the landing directory; None for none.
    """

    window_s: int = 15
    slide_s: int = 3
    late_s: int = 30
    settle_s: int = 3
    history_s: int = 300
    core_hz: float | None = None
    core_hz_of: Mapping[str, float] = field(default_factory=dict)
    trigger_s: float = 2.5
    prompt_trigger_s: float = 0.9
    max_files_per_batch: int = 1000
    keep_raw_s: int = 0
    rate: RecordRate | None = None
    overload_percent: float = 100.0
    alarm_after_s: float | None = None
    heap_mb: int = 1024
    niceness: int = 0
    kafka: KafkaTopic | None = None

    def __post_init__(self) -> None:
        faults = [
            Fault(f"{name} is {getattr(self, name)}, must be positive", f"$.{name}")
            for name in (
                "window_s",
                "slide_s",
                "late_s",
                "trigger_s",
                "prompt_trigger_s",
                "max_files_per_batch",
                "heap_mb",
            )
            if getattr(self, name) <= 0
        ]
        if not 0 < self.overload_percent <= 100:
            wrong = f"overload_percent is {self.overload_percent}, must be above 0, at most 100"
            faults.append(Fault(wrong, "$.overload_percent"))
        if self.rate not in (None, *get_args(RecordRate)):
            faults.append(Fault(f"rate is {self.rate!r}, must be one of {', '.join(get_args(RecordRate))}", "$.rate"))
        if self.alarm_after_s is not None and not self.alarm_after_s > 0:
            faults.append(Fault(f"alarm_after_s is {self.alarm_after_s}, must be positive", "$.alarm_after_s"))
        if self.keep_raw_s < 0:
            faults.append(Fault(f"keep_raw_s is {self.keep_raw_s}, must not be negative", "$.keep_raw_s"))
        if not faults and self.window_s % self.slide_s:
            faults.append(Fault(f"window_s {self.window_s} is no multiple of slide_s {self.slide_s}", "$.window_s"))
        if faults:
            raise InputError("stream settings", faults)

    @property
    def window_ms(self) -> int:
        """Length of a window in ms."""
        return self.window_s * 1000

    @property
    def state_name(self) -> str:
        """Name of the state directory that these settings can continue; panes of another length differ."""
        return f"v{STATE_VERSION}-panes-{self.slide_s}-{self.late_s}"

    @property
    def previous_state_name(self) -> str:
        """Name of the state directory of the version before, which is taken over."""
        return f"v{STATE_VERSION - 1}-panes-{self.slide_s}-{self.late_s}"

    @property
    def watermark_s(self) -> int:
        """Time before the newest record for which a stream recognises duplicates, in seconds.

        Files are read in the order in which they landed. A record lies at most `late_s` before its file and the newest
        one at most a wrong clock ahead of its own, so none that counts is forgotten.
        """
        return self.late_s + MAX_CLOCK_AHEAD_MS // 1000 + ORDER_SLACK_S

    def core_hz_at(self, supervisor: str, default: float) -> float:
        """Return the speed of one core of a supervisor, `default` if nothing is set."""
        return self.core_hz_of.get(supervisor, self.core_hz or default)

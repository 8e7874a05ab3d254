"""Targets: where Spark runs, and its settings."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.errors import PySparkException

from stormwright.errors import Fault, InputError

try:
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
except ImportError:  # pyspark-client, which only has Spark Connect
    Py4JError = PySparkException

#: Errors of Spark: its own, and those of a call to its JVM.
SPARK_ERRORS: tuple[type[Exception], ...] = (PySparkException, Py4JError)

#: Setting that has the same meaning for all targets and can be changed in a running session.
EVERYWHERE = {"spark.sql.session.timeZone": "UTC"}

#: Setting of stormwright, not of Spark: time limit for a cluster's first row, in seconds.
FIRST_ROW_SETTING = "spark.stormwright.firstRowSeconds"

#: Environment variable equivalent to ``--master``.
MASTER_VARIABLE = "STORMWRIGHT_SPARK_MASTER"

#: Environment variable equivalent to ``--spark-conf``, one setting a line: others can see a command line.
CONF_VARIABLE = "STORMWRIGHT_SPARK_CONF"

#: Pattern of an address.
HOST_AND_PORT = r"(?:\[[0-9a-fA-F:.]+\]|[^\s:/,;\[\]]+):\d{1,5}"

_LOCAL = re.compile(r"local(\[(\*|[1-9]\d*)(,[1-9]\d*)?\])?")
_STANDALONE = re.compile(rf"spark://{HOST_AND_PORT}(,{HOST_AND_PORT})*")
_CONNECT = re.compile(r"sc://[^\s/;]+(/\S*)?")

#: Schemes of clusters that only spark-submit starts programs on.
_SUBMITTED = ("yarn", "k8s://")

_WANTED = "should be local[N], spark://HOST:PORT or sc://HOST:PORT"

#: Ends of the names of settings that are sizes of memory, with which a JVM does not start if they are wrong.
_SIZES = (".memory", ".memoryOverhead")


@dataclass(frozen=True)
class SparkTarget:
    """Where Spark runs, and settings that override the defaults.

    Parameters
    ----------
    master
        ``local[N]`` (N cores of this machine, ``*`` for all), ``spark://HOST:PORT`` (a standalone cluster) or
        ``sc://HOST:PORT`` (a Spark Connect server). None: the master of spark-submit, and ``local[*]`` without it.
    conf
        Settings of Spark by name.

    Raises
    ------
    InputError
        On creation: an invalid master or setting; all faults at once, each with its option.
    """

    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        faults = [] if self.master is None else _master_faults(self.master)
        faults += [fault for key, value in self.conf.items() if (fault := _setting_fault(key, value))]
        if faults:
            raise InputError("where Spark runs", faults)

    @staticmethod
    def parsed(master: str | None, settings: Sequence[str]) -> SparkTarget:
        """Return the target from ``--master`` and ``KEY=VALUE`` texts of ``--spark-conf``; the last of equal keys wins.

        Raises
        ------
        InputError
            As on creation.
        """
        faults = [Fault(f"should be KEY=VALUE, got {text!r}", "--spark-conf") for text in settings if "=" not in text]
        conf = dict(text.split("=", 1) for text in settings if "=" in text)
        try:
            target = SparkTarget(master, conf)
        except InputError as error:
            raise InputError(error.source, [*error.faults, *faults]) from error
        if faults:
            raise InputError("where Spark runs", faults)
        return target

    @property
    def local(self) -> bool:
        """Whether it is this machine, in a private JVM."""
        return self.master is None or self.master.startswith("local")

    @property
    def connect(self) -> bool:
        """Whether it is a Spark Connect server."""
        return self.master is not None and self.master.startswith("sc://")

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Hosts and ports of a standalone cluster's masters, of which one is active."""
        if self.master is None or not self.master.startswith("spark://"):
            return []
        return addresses_in(self.master.removeprefix("spark://"))


def addresses_in(text: str) -> list[tuple[str, int]]:
    """Return the hosts and ports of addresses separated by commas."""
    pairs = (address.rpartition(":") for address in text.split(","))
    return [(host.strip("[]"), int(port)) for host, _, port in pairs]


def _master_faults(master: str) -> list[Fault]:
    if master.startswith(_SUBMITTED):
        return [Fault(f"{_WANTED}, got {master!r}; yarn and k8s run what spark-submit starts", "--master")]
    if any(form.fullmatch(master) for form in (_LOCAL, _STANDALONE, _CONNECT)):
        return []
    return [Fault(f"{_WANTED}, got {master!r}", "--master")]


def _setting_fault(key: str, value: str) -> Fault | None:
    if key in ("spark.master", "spark.remote"):
        return Fault(f"{key}: use --master instead", "--spark-conf")
    if not re.fullmatch(r"spark\.\S+", key):
        return Fault(f"{key!r} is no setting of Spark: their names begin with 'spark.'", "--spark-conf")
    if value and key.endswith(_SIZES) and not re.fullmatch(r"\d+([kmgtp]b?|b)?", value, re.ASCII | re.IGNORECASE):
        return Fault(f"{key} should be a size as in 2g or 512m, got {value!r}", "--spark-conf")
    if key == FIRST_ROW_SETTING and not re.fullmatch(r"[1-9]\d*", value, re.ASCII):
        return Fault(f"{key} should be a whole number of seconds, got {value!r}", "--spark-conf")
    return None if value else Fault(f"{key} has no value", "--spark-conf")


def first_line(error: Exception) -> str:
    """Return the message of an error without the JVM's stack trace."""
    lines = [line.strip().removeprefix(": ") for line in str(error).splitlines()]
    # Of a JVM's exception the first line names nothing but the call.
    messages = (line for line in lines if line and not line.startswith("An error occurred while calling"))
    return next(messages, type(error).__name__)

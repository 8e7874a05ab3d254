"""Facts that ``stormwright doctor`` checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

#: Default of ``nimbus.monitor.freq.secs`` in Storm's defaults.yaml.
MONITOR_S = 10

Verdict = Literal["ok", "wrong", "unknown"]


@dataclass(frozen=True)
class Finding:
    """Result of one check.

    Parameters
    ----------
    check
        Name of the check.
    verdict
        ``ok``, ``wrong``, or ``unknown`` if its input is not available.
    text
        Description of the finding, printed behind the verdict.
    fix
        Suggested action if wrong or unknown.
    """

    check: str
    verdict: Verdict
    text: str
    fix: str = ""


@dataclass(frozen=True)
class Jar:
    """A stormwright jar: its file, the version in its name, and a digest of its content."""

    path: str
    version: str
    digest: str


@dataclass(frozen=True)
class Installation:
    """A Storm installation, as far as its files show.

    Parameters
    ----------
    home
        Directory of the installation.
    jars
        Stormwright jars in ``extlib-daemon``.
    storm_version
        Version of the jars in ``lib``; None without any.
    yaml_path, conf
        Its storm.yaml; None if it cannot be read.
    nimbus
        Host and port of each Nimbus → whether it accepts connections.
    credentials
        Key of its storm.yaml that names a credentials file of the service → why that cannot be read, empty if it can.
    yaml_there
        Whether a file exists at `yaml_path`, readable or not.
    yaml_fault
        Why what it has is no configuration; empty if it is one, or cannot be read.
    """

    home: str
    jars: Sequence[Jar]
    storm_version: str | None
    yaml_path: str
    conf: Mapping[str, Any] | None
    nimbus: Mapping[str, bool] = field(default_factory=dict)
    credentials: Mapping[str, str] = field(default_factory=dict)
    yaml_there: bool = True
    yaml_fault: str = ""


@dataclass(frozen=True)
class ServiceFacts:
    """A running service, as it answers this machine.

    Parameters
    ----------
    address
        Address of the service.
    why_not
        Why it did not answer; None if it did.
    version
        Version that it reports; None if unknown.
    skew_s
        Difference of its clock to this machine's, in seconds; None if unknown.
    called_by_nimbus
        Whether Nimbus has called it; None if unknown.
    status
        Its status document; empty if unknown.
    requires_token
        Whether it refused the request because a token is required.
    """

    address: str
    why_not: str | None = None
    version: str | None = None
    skew_s: float | None = None
    called_by_nimbus: bool | None = None
    status: Mapping[str, Any] = field(default_factory=dict)
    requires_token: bool = False


@dataclass(frozen=True)
class Facts:
    """Facts of this machine, its Storm installation and a service.

    Parameters
    ----------
    version
        Version of this package.
    python
        Major and minor version of Python.
    java
        Version of Java; None without a supported one.
    java_why_not
        Why there is no supported Java.
    built
        Jar built in the clone that this package runs from, if any.
    able
        Whether prebuilt code supports this processor; None if Numba cannot be loaded.
    compiled
        Number of files of prebuilt code that fit these sources.
    unfit
        Packages without such files.
    installation, service
        None if there is none.
    """

    version: str
    python: tuple[int, int]
    java: str | None
    java_why_not: str
    built: Jar | None
    able: bool | None
    compiled: int
    unfit: tuple[str, ...]
    installation: Installation | None
    service: ServiceFacts | None

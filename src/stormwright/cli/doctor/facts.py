"""Facts that ``stormwright doctor`` checks."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from stormwright.errors import InputError

# storm.yaml ---------------------------------------------------------------------------------------
# The storm.yaml of an installation, where it can be read, and where Nimbus is by it.

#: Of Storm's defaults.yaml.
NIMBUS_PORT, MONITOR_S = 6627, 10


def path_of(storm_home: Path) -> Path:
    """Where Storm's own programs read it."""
    return Path(os.environ.get("STORM_CONF_DIR") or storm_home / "conf") / "storm.yaml"


def storm_yaml(storm_home: Path) -> Mapping[str, Any] | None:
    """Return the contents of storm.yaml; None if it cannot be read."""
    from stormwright.formats.files.yaml_files import read_yaml

    try:
        values = read_yaml(path_of(storm_home))
    except (InputError, ModuleNotFoundError):
        return None
    return values if isinstance(values, Mapping) else {}


def seeds_of(conf: Mapping[str, Any]) -> list[tuple[str, int]]:
    """Host and port of each Nimbus."""
    seeds, port = conf.get("nimbus.seeds", ["localhost"]), conf.get("nimbus.thrift.port", NIMBUS_PORT)
    if not isinstance(seeds, list) or type(port) is not int:
        return []
    return [(str(seed), port) for seed in seeds]


def nimbus_of(conf: Mapping[str, Any]) -> str:
    """The same for people."""
    return " ".join(f"{host}:{port}" for host, port in seeds_of(conf)) or "unknown"


# Facts --------------------------------------------------------------------------------------------

Verdict = Literal["ok", "wrong", "unknown"]


@dataclass(frozen=True)
class Finding:
    """Result of one check.

    Parameters
    ----------
    check
        Its name.
    verdict
        ``unknown`` where what it goes by could not be had.
    text
        What was found.
    fix
        What to do, of what is wrong or unknown.
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
        Where it is.
    jars
        Ours in ``extlib-daemon``.
    storm_version
        By the jars in ``lib``; None where there is none.
    yaml_path, conf
        Its storm.yaml; None where that cannot be read.
    nimbus
        Host and port of each Nimbus → whether a connection came about.
    credentials
        Key of its storm.yaml that names a file by which the service knows Nimbus → why that cannot be read, empty where
        it can.
    yaml_there
        Whether there is a file at `yaml_path`.
    """

    home: str
    jars: Sequence[Jar]
    storm_version: str | None
    yaml_path: str
    conf: Mapping[str, Any] | None
    nimbus: Mapping[str, bool] = field(default_factory=dict)
    credentials: Mapping[str, str] = field(default_factory=dict)
    yaml_there: bool = True


@dataclass(frozen=True)
class ServiceFacts:
    """A running service, as it answers here.

    Parameters
    ----------
    address
        Where it was asked.
    why_not
        Why it did not answer; None where it did.
    version
        What it says it is; None where it says none.
    skew_s
        Its clock before this machine's; None where it told no time.
    has_asked
        Whether Nimbus has asked it; None where that is not known.
    status
        Its status; empty where it did not tell.
    asks
        Whether it did not answer as it wants to know who asks.
    """

    address: str
    why_not: str | None = None
    version: str | None = None
    skew_s: float | None = None
    has_asked: bool | None = None
    status: Mapping[str, Any] = field(default_factory=dict)
    asks: bool = False


@dataclass(frozen=True)
class Facts:
    """All of it.

    Parameters
    ----------
    version
        Of this package.
    python
        Major and minor version.
    java
        Its major version; None where none fits.
    java_why_not
        Why none does.
    built
        Our jar beside this package, if it is a clone that has built one.
    able
        Whether machine code is brought for this processor; None where Numba could not tell.
    compiled
        Files of it that fit these sources.
    unfit
        Packages of which none of these does.
    installation, service
        None where nobody named one.
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

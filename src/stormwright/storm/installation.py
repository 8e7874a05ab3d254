"""A Storm installation whose Java classes are used: where it is, and how a JVM is started on it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from stormwright.errors import MissingDependencyError
from stormwright.java import find_java
from stormwright.storm.jvm import STORM_HOME, STORMWRIGHT_JAR

#: Where daemons and clients have their jars, and storm.yaml.
_PARTS = ("lib", "extlib", "extlib-daemon")

_FLAGS = ("-Xmx2g", "-XX:+UseSerialGC")


def find_storm_home(given: Path | None = None) -> Path:
    """`given`, or what ``STORM_HOME`` or the ``storm`` on PATH say, or what ``make setup`` laid out in the clone.

    Raises
    ------
    MissingDependencyError
        There is none.
    """
    if given is not None:
        return given
    if home := os.environ.get("STORM_HOME"):
        return Path(home)
    if storm := shutil.which("storm"):
        return Path(storm).resolve().parents[1]
    if STORM_HOME.exists():
        return STORM_HOME
    raise MissingDependencyError("no Storm installation: give --storm-home DIR, or set STORM_HOME")


def our_jar(storm_home: Path) -> Path:
    """Our jar in a Storm installation, or that of the clone.

    Raises
    ------
    MissingDependencyError
        There is none.
    """
    jars = chain.from_iterable((storm_home / part).glob(STORMWRIGHT_JAR.name) for part in _PARTS)
    ours = next(jars, STORMWRIGHT_JAR)
    if not ours.exists():
        raise MissingDependencyError(
            f"{STORMWRIGHT_JAR.name} is missing in {storm_home}: copy it into {storm_home / 'extlib-daemon'} "
            "(`make setup` in a clone builds it, in java/target)"
        )
    return ours


def storm_command(storm_home: Path, main: str, *args: str, flags: Sequence[str] = _FLAGS) -> list[str]:
    """Argument vector that starts one of our Java classes on a Storm installation.

    Parameters
    ----------
    storm_home
        Where Storm is laid out. The storm.yaml is that in ``conf/`` or, as for bin/storm, in ``STORM_CONF_DIR``.
    main
        Name of the class.
    *args
        For its ``main``.
    flags
        For the JVM.

    Raises
    ------
    MissingDependencyError
        Java, Storm's jars or our jar are missing.
    """
    java = find_java("Storm")
    if not any((storm_home / "lib").glob("storm-*.jar")):
        raise MissingDependencyError(f"{storm_home} is no Storm installation: there is no lib/storm-….jar in it")
    ours = our_jar(storm_home)
    conf = os.environ.get("STORM_CONF_DIR", str(storm_home / "conf"))  # as bin/storm
    class_path = ":".join([str(ours), *(f"{storm_home / part}/*" for part in _PARTS), conf])
    return [java, *flags, f"-Dstorm.home={storm_home}", "-cp", class_path, main, *args]

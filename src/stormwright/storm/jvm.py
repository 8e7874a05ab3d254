"""Locations of Storm's and our jars, and commands that start JVMs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path

from stormwright import __version__
from stormwright.base.java import find_java
from stormwright.errors import MissingDependencyError

# Installation -------------------------------------------------------------------------------------
# Location of the Storm installation, and commands that use its classes.

#: Directories of jars of daemons and clients.
_PARTS = ("lib", "extlib", "extlib-daemon")

_CLIENT_FLAGS = ("-Xmx2g", "-XX:+UseSerialGC")


def find_storm_home(given: Path | None = None) -> Path:
    """Return `given`, else ``STORM_HOME``, the home of ``storm`` on PATH, or that of ``make setup``.

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


def conf_directory(storm_home: Path) -> Path:
    """Return the directory of storm.yaml: ``conf`` or, as for bin/storm, ``STORM_CONF_DIR``."""
    return Path(os.environ.get("STORM_CONF_DIR") or storm_home / "conf")


def our_jar(storm_home: Path) -> Path:
    """Return our jar in a Storm installation, or that of this package.

    Raises
    ------
    MissingDependencyError
        There is none.
    """
    jars = chain.from_iterable((storm_home / part).glob(STORMWRIGHT_JAR.name) for part in _PARTS)
    ours = next(jars, STORMWRIGHT_JAR)
    if not ours.exists():
        raise MissingDependencyError(
            f"{STORMWRIGHT_JAR.name} is missing in {storm_home}: run `make setup` in the clone, or install a wheel, "
            f"then `stormwright install {storm_home}`"
        )
    return ours


def storm_command(storm_home: Path, main: str, *args: str, flags: Sequence[str] = _CLIENT_FLAGS) -> list[str]:
    """Return the command that starts one of our Java classes on a Storm installation.

    Parameters
    ----------
    storm_home
        Storm installation; its storm.yaml is in `conf_directory`.
    main
        Name of the class.
    *args
        Arguments of its ``main``.
    flags
        Options of the JVM.

    Raises
    ------
    MissingDependencyError
        Java, Storm's jars or our jar are missing.
    """
    java = find_java("Storm")
    if not any((storm_home / "lib").glob("storm-*.jar")):
        raise MissingDependencyError(f"{storm_home} is no Storm installation: there is no lib/storm-….jar in it")
    ours = our_jar(storm_home)
    parts = (f"{storm_home / part}/*" for part in _PARTS)
    class_path = ":".join([str(ours), *parts, str(conf_directory(storm_home))])
    return [java, *flags, f"-Dstorm.home={storm_home}", "-cp", class_path, main, *args]


# JVM commands -------------------------------------------------------------------------------------

#: The clone that this file lies in, if it lies in one: Storm is laid out and our jar is built there.
_CLONE = Path(__file__).resolve().parents[3]

#: Storm of local clusters: that of ``STORMWRIGHT_LOCAL_STORM`` (another version, of ``make storm-versions``), else of
#: the clone, else of ``STORM_HOME``. ``lib`` is for daemons, ``lib-worker`` for workers.
STORM_HOME = Path(os.environ.get("STORMWRIGHT_LOCAL_STORM") or _CLONE / "build" / "storm")
if not STORM_HOME.exists() and "STORM_HOME" in os.environ:
    STORM_HOME = Path(os.environ["STORM_HOME"])

#: Classes of a worker, ready to be mapped into memory: starting one takes two thirds of the CPU time. May be missing.
WORKER_ARCHIVE = STORM_HOME / "worker.jsa"

#: Names of these classes, for standby workers. May be missing.
WORKER_CLASSES = STORM_HOME / "worker.classes"

#: Scheduler plugin, probe, Nimbus gateway and benchmark topologies. A wheel has it beside this file; a clone builds it.
STORMWRIGHT_JAR = Path(__file__).with_name(f"stormwright-storm-{__version__}.jar")
if not STORMWRIGHT_JAR.exists():
    STORMWRIGHT_JAR = _CLONE / "java" / "target" / STORMWRIGHT_JAR.name

# A JVM that is killed leaves the perf data file behind that it keeps in /tmp for jps.
_FLAGS = ("-XX:+UseSerialGC", "-XX:-UsePerfData")

#: For JVMs that live long but do little: compiling with the second compiler would only take cores from workers.
LIGHT = (*_FLAGS, "-XX:TieredStopAtLevel=1")

#: For workers, whose throughput is what this is about. What runs only while one starts is left to the first compiler:
#: a start takes a quarter less CPU time, and a method that carries tuples reaches the counts within a second.
FULL = (
    *_FLAGS,
    "-XX:Tier4InvocationThreshold=25000",
    "-XX:Tier4MinInvocationThreshold=3000",
    "-XX:Tier4CompileThreshold=75000",
    "-XX:Tier4BackEdgeThreshold=200000",
)


def require_java() -> str:
    """Return the ``java`` to use for a local cluster.

    Raises
    ------
    MissingDependencyError
        If there is none, or Storm's or our jars have not been built.
    """
    java = find_java("Storm")
    for path in (STORM_HOME / "lib", STORM_HOME / "lib-worker", STORMWRIGHT_JAR):
        if not path.exists():
            raise MissingDependencyError(f"{path} is missing: run `make setup` in the clone, or set STORM_HOME")
    return java


def java_command(
    java: str,
    *,
    main: str,
    class_path: Sequence[Path | str],
    flags: Sequence[str],
    heap_mb: int,
    properties: Mapping[str, object],
    args: Sequence[str] = (),
) -> list[str]:
    """Return the command of a JVM.

    Parameters
    ----------
    java
        The ``java`` to start (`require_java`).
    main
        Fully qualified name of the class with ``main``.
    class_path
        Jars and directories; a last part ``*`` stands for all jars of one.
    flags
        Options of the JVM, such as `LIGHT` or `FULL`.
    heap_mb
        Maximum heap, in MB.
    properties
        System properties (``-D``) by name.
    args
        Arguments of the class.
    """
    return [
        java,
        *flags,
        f"-Xmx{heap_mb}m",
        *(f"-D{key}={value}" for key, value in properties.items()),
        "-cp",
        os.pathsep.join(str(entry) for entry in class_path),
        main,
        *args,
    ]

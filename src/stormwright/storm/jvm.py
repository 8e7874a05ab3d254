"""Where Storm's jars and our own jar are, and how a JVM of ours is started."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from stormwright import __version__
from stormwright.errors import MissingDependencyError
from stormwright.java import find_java

#: The clone that this file lies in: Storm's jars and ours are built there, not shipped in the Python package.
_CLONE = Path(__file__).resolve().parents[3]

#: What bin/storm would call STORM_HOME: ``lib`` for daemons, ``lib-worker`` for workers and clients.
STORM_HOME = _CLONE / "build" / "storm"

#: Classes of a worker, ready to be mapped into memory: starting one takes two thirds of the CPU time. May be missing.
WORKER_ARCHIVE = STORM_HOME / "worker.jsa"

#: Scheduler plugin, probe, Nimbus gateway and benchmark topologies.
STORMWRIGHT_JAR = _CLONE / "java" / "target" / f"stormwright-storm-{__version__}.jar"

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
    """The ``java`` to use for a local cluster.

    Raises
    ------
    MissingDependencyError
        If there is none, or Storm's or our jars have not been built.
    """
    java = find_java("Storm")
    for path in (STORM_HOME / "lib", STORM_HOME / "lib-worker", STORMWRIGHT_JAR):
        if not path.exists():
            raise MissingDependencyError(f"{path} is missing: run `make setup` in the clone")
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
    """Argument vector of a JVM.

    Parameters
    ----------
    java
        The ``java`` to start (`require_java`).
    main
        Class to run.
    class_path
        Jars and directories; a last part ``*`` stands for all jars of one.
    flags
        For the JVM, such as `LIGHT` or `FULL`.
    heap_mb
        Most memory for objects, in MB.
    properties
        System properties (``-D``) by name.
    args
        For the class.
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

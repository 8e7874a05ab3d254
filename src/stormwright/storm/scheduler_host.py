"""Java schedulers: any `IScheduler` class, run on a problem in a persistent JVM.

Decisions that only Java code reproduces (by hash order, recursion and time limits of its own) are not ported. The
host (``stormwright.SchedulerHost``) makes of the problem the objects that Nimbus would hand to the class, and reads the
cluster that it leaves. Each run has a new instance, so that its answer depends on the problem alone.
"""

from __future__ import annotations

import atexit
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Self

import numpy as np
import orjson

from stormwright.errors import Fault, InputError, SchedulerError
from stormwright.formats import assignment_from_dict, problem_to_dict
from stormwright.formats.document.documents import ASSIGNMENT_SCHEMA
from stormwright.model import UNPLACED, Assignment, Problem, Unplaced
from stormwright.model.humanize import counted
from stormwright.model.topology_config import MACHINES
from stormwright.storm.helper_jvm import HelperJvm, JvmEndedError, NoAnswerError
from stormwright.storm.java_names import JAVA_PREFIX
from stormwright.storm.jvm import STORM_HOME, STORMWRIGHT_JAR, java_command, require_java

#: Default time limit for one problem in seconds. Storm's ResourceAware takes minutes for large ones.
TIME_LIMIT_S = 1800.0

#: Key of the configuration (``--set``, or the problem's own) for another number of seconds.
TIME_LIMIT_CONF = "stormwright.java.time.limit.s"

#: Heap limit of the JVM: 100,000 executors in Storm's objects, and the copies that ResourceAware makes of them.
HEAP_MB = 4096

#: Seed of ``Collections.shuffle`` where none is given: IsolationScheduler's answers then are the same each time.
SHUFFLE_SEED = 42

_FLAGS = (
    "-XX:+UseSerialGC",
    "-XX:-UsePerfData",  # its file in /tmp would stay behind a JVM that is killed
    "--add-opens=java.base/java.util=ALL-UNNAMED",  # the generator of Collections.shuffle is private
)

_NAME = re.compile(r"java:(?P<scheduler>[\w.$]+)(?::(?P<strategy>[\w.$]+))?")


def host_command(
    jars: Sequence[Path] = (), *, storm_home: Path = STORM_HOME, ours: Path = STORMWRIGHT_JAR, java: str | None = None
) -> list[str]:
    """Return the command that starts the host, with the classes of Storm and of `jars`.

    Parameters
    ----------
    jars
        Jars or directories of classes that are not Storm's.
    storm_home
        Directory with Storm's jars in ``lib``; another version of Storm than the usual one.
    ours
        Our jar, or directory of classes, which fits it.
    java
        The ``java`` to start; by default that of `require_java`.

    Raises
    ------
    InputError
        A jar is missing.
    MissingDependencyError
        There is no Java, or Storm's or our jars have not been built.
    """
    faults = [Fault("no such jar or directory of classes", str(jar)) for jar in jars if not jar.exists()]
    if faults:
        raise InputError("--jar", faults)
    return java_command(
        java or require_java(),
        main="stormwright.SchedulerHost",
        class_path=[storm_home / "lib" / "*", ours, *(jar.resolve() for jar in jars)],
        flags=_FLAGS,
        heap_mb=HEAP_MB,
        properties={"storm.home": storm_home},
    )


class SchedulerHost(HelperJvm):
    """The JVM that runs schedulers, started with the first request; thread-safe.

    Parameters
    ----------
    command
        Argument vector that starts ``stormwright.SchedulerHost``; once more when its JVM has ended.

    Raises
    ------
    SchedulerError
        From `run`: the scheduler threw something, took too long, or its JVM ended.
    """

    def run(self, scheduler: str, *, time_limit_s: float = TIME_LIMIT_S, **request: Any) -> dict[str, Any]:
        """Return the host's response for the class `scheduler`; the other parts of the request by name."""
        try:
            response = self._ask({"class": scheduler, **request}, time_limit_s)
        except NoAnswerError as error:
            more = f"--set {TIME_LIMIT_CONF}=SECONDS allows more"
            raise SchedulerError(f"{JAVA_PREFIX}{scheduler}: no answer within {time_limit_s:g} s; {more}") from error
        except JvmEndedError as error:
            raise SchedulerError(f"{JAVA_PREFIX}{scheduler}: the JVM that runs it has ended: {error}") from error
        if "error" in response:
            # The first cause is already in the error message.
            lines = [response["error"], *(f"  caused by {cause}" for cause in response["cause"][1:])]
            raise SchedulerError(f"{JAVA_PREFIX}{scheduler}: " + "\n".join(lines))
        return response


@cache
def _shared_host(jars: tuple[Path, ...]) -> SchedulerHost:
    """Return a shared JVM for a set of jars, so that it is warm for a second scheduler."""
    host = SchedulerHost(host_command(jars))
    atexit.register(host.close)
    return host


class JavaScheduler:
    """Runs a Java `IScheduler`: one of Storm, or your own.

    Any class that implements ``org.apache.storm.scheduler.IScheduler`` of Storm 2.8.3.

    One of Storm's may come without its package: ``java:DefaultScheduler``, ``java:ResourceAwareScheduler``. A strategy
    after it goes to every topology as ``topology.scheduler.strategy``. ``--jar`` names where other classes are found;
    ``--set KEY=VALUE`` sets a key of Storm's configuration. ``java:IsolationScheduler`` requires the number of isolated
    hosts by name of a topology: ``--set 'isolation.scheduler.machines={"wc": 1}'``.

    The class runs in a JVM of its own that stays warm, on the objects that Nimbus would hand it, and has
    ``stormwright.java.time.limit.s`` seconds for its answer. ``Collections.shuffle`` is seeded.

    Storm's BlacklistScheduler cannot be used: it wraps another scheduler and learns over many rounds which hosts to
    avoid, and each run here is the first. Name the scheduler that it wraps; hosts that the problem blacklists get
    nothing from it.

    When to use
    -----------
    To compare the decisions of Storm, or of a scheduler that you run, with others; or to keep that scheduler and
    use the rest of stormwright.

    Ignores
    -------
    Measured load and traffic: Nimbus knows none, so the class sees what components ask for. All else is up to it; it
    may break limits that ours keep.

    Honours
    -------
    what the class honours

    Parameters
    ----------
    scheduler
        Name of the class; that of one of Storm's may come without its package.
    strategy
        Class that every topology gets as its ``topology.scheduler.strategy``; without one each keeps its own.
    conf
        Laid over the configuration of the problem.
    seed
        Seed of ``Collections.shuffle``, set before every run.
    host
        JVM to use; None for a shared one.

    Raises
    ------
    SchedulerError
        From `schedule`: there is no such class, or it threw something; with the Java exceptions.
    InputError
        From `schedule`: it placed executors in slots that the problem does not have, or its time limit is none, or
        the seed, a value of the configuration or one in the problem is nothing that JSON can hold.
    """

    # Traits declared by the class, see `Traits`.
    times_itself = keeps_time_limit = True

    def __init__(
        self,
        scheduler: str,
        strategy: str | None = None,
        *,
        conf: Mapping[str, Any] | None = None,
        seed: int | None = None,
        host: SchedulerHost | None = None,
    ) -> None:
        self.scheduler = scheduler
        self.strategy = strategy
        self.conf = dict(conf or {})
        self.seed = SHUFFLE_SEED if seed is None else seed
        self._host = host or _shared_host(())

    @classmethod
    def named(
        cls, name: str, *, conf: Mapping[str, Any] | None = None, seed: int | None = None, jars: Sequence[Path] = ()
    ) -> Self:
        """Return the scheduler of a name.

        Parameters
        ----------
        name
            ``java:CLASS``, or ``java:CLASS:STRATEGY`` with a strategy for every topology.
        conf
            Laid over the configuration of the problem; a text that is JSON stands for its value.
        seed
            Seed of ``Collections.shuffle``; None for a fixed default.
        jars
            Jars or directories of classes that are not Storm's.

        Raises
        ------
        InputError
            The name is none, or a jar is missing.
        MissingDependencyError
            There is no Java, or Storm's or our jars have not been built.
        """
        match = _NAME.fullmatch(name)
        if match is None:
            raise InputError("--scheduler", [Fault("should be java:CLASS or java:CLASS:STRATEGY", name)])
        host = _shared_host(tuple(jars))
        values = {key: _parsed(value) for key, value in (conf or {}).items()}
        return cls(match["scheduler"], match["strategy"], conf=values, seed=seed, host=host)

    @property
    def name(self) -> str:
        """Name as on the command line."""
        return JAVA_PREFIX + self.scheduler + (f":{self.strategy}" if self.strategy else "")

    def schedule(self, problem: Problem) -> Assignment:
        """Return the placement by the class; `seconds` is the time in its method ``schedule``."""
        limit = {**problem.conf, **self.conf}.get(TIME_LIMIT_CONF, TIME_LIMIT_S)
        # True is an int to Python, but no number of seconds.
        is_number = isinstance(limit, (int, float)) and not isinstance(limit, bool)
        if not is_number or not 0 < limit <= threading.TIMEOUT_MAX:
            raise InputError(self.name, [Fault(f"should be a number of seconds, got {limit!r}", TIME_LIMIT_CONF)])
        document = problem_to_dict(replace(problem, load=None))  # Nimbus knows no load
        try:
            response = self._host.run(
                self.scheduler,
                time_limit_s=limit,
                strategy=self.strategy,
                conf=self.conf,
                seed=self.seed,
                problem=document,
            )
        except SchedulerError as error:
            if hint := self._hint(problem):
                raise SchedulerError(f"{error}\n  {hint}") from error
            raise
        except orjson.JSONEncodeError as error:  # another name of TypeError
            faults = list(_unsendable({"seed": self.seed, **self.conf, "problem": document}))
            if not faults:
                raise
            raise InputError(self.name, faults) from error
        answer = {key: response[key] for key in ("assignments", "status", "seconds")}
        placed = assignment_from_dict({"schema": ASSIGNMENT_SCHEMA, **answer}, problem, self.name)
        return replace(
            placed,
            unplaced=tuple(self._unplaced(problem, placed)),
            scheduler=self.name,
            parameters={"conf": self.conf, "seed": self.seed},
        )

    def _hint(self, problem: Problem) -> str:
        """Return a hint about configuration that the class may lack; empty if there is none."""
        if not self.scheduler.endswith("IsolationScheduler") or {**problem.conf, **self.conf}.get(MACHINES):
            return ""
        names = [topology.name for topology in problem.topologies]
        machines = orjson.dumps(dict.fromkeys(names[:1], 1)).decode()
        return f"it wants topologies with hosts for themselves: --set '{MACHINES}={machines}' gives the first one host"

    def _unplaced(self, problem: Problem, placed: Assignment) -> list[Unplaced]:
        """Return reasons of unplaced executors; the class gives at most one per topology: its status."""
        unplaced = []
        for index, topology in enumerate(problem.topologies):
            missing = np.flatnonzero(placed.slot_of_executor[problem.executors_of(index)] == UNPLACED)
            reason = f"{self.name} left {len(missing)} of {counted(topology.num_executors, 'executor')} unplaced"
            reason += f": {placed.status[topology.id]}" if topology.id in placed.status else " and gave no reason"
            for executor in missing.tolist():
                component = topology.components[topology.executor_component[executor]].id
                unplaced.append(Unplaced(topology.id, executor, component, (reason,)))
        return unplaced


def _unsendable(parts: Mapping[str, object]) -> Iterator[Fault]:
    """Yield a fault for each value that JSON cannot hold."""
    for path, value in parts.items():
        try:
            orjson.dumps(value)
        except orjson.JSONEncodeError as error:
            yield Fault(f"cannot be sent as JSON: {error}", path)


def _parsed(value: object) -> object:
    """Return the value of a text that is JSON; anything else unchanged."""
    if not isinstance(value, str):
        return value
    try:
        return orjson.loads(value)
    except orjson.JSONDecodeError:
        return value

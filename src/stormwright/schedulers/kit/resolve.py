"""A scheduler, and what it is, by any name that users may give: a registered one, or ``java:CLASS[:STRATEGY]``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from stormwright.errors import Fault, InputError
from stormwright.model import Scheduler
from stormwright.schedulers.kit.describe import Description, Parameter, describe, describe_class
from stormwright.schedulers.kit.params import NoParams
from stormwright.schedulers.kit.registry import make_scheduler, parse_settings

#: What the name of a Java scheduler begins with.
JAVA_PREFIX = "java:"

#: What stands for all of them where schedulers are listed.
ANY_JAVA = f"{JAVA_PREFIX}CLASS[:STRATEGY]"


def resolve_scheduler(
    name: str,
    settings: Mapping[str, object] | Sequence[str] = (),
    seed: int | None = None,
    jars: Sequence[Path] = (),
) -> Scheduler:
    """The scheduler `name`.

    Parameters
    ----------
    name
        A registered name, or ``java:CLASS[:STRATEGY]``: a Java `IScheduler` that runs as itself.
    settings
        By name, or ``key=value`` texts: parameters of a registered scheduler; for a Java class, keys of Storm's
        configuration that are laid over those of the problem.
    seed
        For schedulers that draw random numbers; with a Java class it seeds ``Collections.shuffle``.
    jars
        Where Java classes are looked for besides Storm's own jars.

    Raises
    ------
    InputError
        An unknown name, parameters that are unknown or out of range, or jars without a Java class.
    MissingDependencyError
        There is no Java, Storm's jars are missing, or another package's scheduler cannot be imported.
    """
    if name.startswith(JAVA_PREFIX):
        from stormwright.storm.scheduler_host import JavaScheduler  # only they need the cluster's side

        conf = settings if isinstance(settings, Mapping) else parse_settings(settings)
        return JavaScheduler.named(name, conf=conf, seed=seed, jars=jars)
    if jars:
        reason = f"holds Java classes, and {name} is none: the name of a Java scheduler begins with {JAVA_PREFIX}"
        raise InputError("--jar", [Fault(reason, str(jar)) for jar in jars])
    return make_scheduler(name, settings, seed)


def describe_scheduler(name: str) -> Description:
    """What there is to say of the scheduler `name`; of all Java classes the same.

    Raises
    ------
    InputError
        There is none of this name.
    MissingDependencyError
        It is another package's, and cannot be imported.
    """
    if name.startswith(JAVA_PREFIX):
        from stormwright.storm.scheduler_host import JavaScheduler  # only they need the cluster's side

        return replace(describe_class(name, JavaScheduler, NoParams), parameters=_java_parameters())
    return describe(name)


def _java_parameters() -> tuple[Parameter, ...]:
    """What ``--set`` takes for a Java class."""
    from stormwright.storm.scheduler_host import TIME_LIMIT_CONF, TIME_LIMIT_S

    limit = "seconds that the class has for its answer"
    key = "a key of Storm's configuration, laid over that of the problem; a value that is JSON stands for what it is"
    return (
        Parameter(TIME_LIMIT_CONF, "number", TIME_LIMIT_S, limit, 0, None, ()),
        Parameter("KEY", "text or JSON", "VALUE", key, None, None, ()),
    )

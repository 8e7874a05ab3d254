"""Schedulers by any name that users may give: a registered one, or ``java:CLASS[:STRATEGY]``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from stormwright.errors import Fault, InputError, MissingDependencyError, SchedulerError, StormwrightError
from stormwright.model import Scheduler
from stormwright.schedulers.toolkit.params import NoParams
from stormwright.schedulers.toolkit.queue_rules import OPTIONS
from stormwright.schedulers.toolkit.registry import (
    check_settings,
    make_scheduler,
    parse_settings,
    scheduler_names,
    scheduler_type,
)
from stormwright.storm.java_names import JAVA_PREFIX

if TYPE_CHECKING:
    from stormwright.schedulers.toolkit.describe import Description, Parameter

#: Name of all registered schedulers.
ALL = "all"

#: Placeholder of Java classes in lists of schedulers.
ANY_JAVA = f"{JAVA_PREFIX}CLASS[:STRATEGY]"


#: Java scheduler used in examples.
SOME_JAVA = f"{JAVA_PREFIX}ResourceAwareScheduler"

#: Parameters that set the search budget of a scheduler.
SEARCHING = frozenset({"iterations", "time_budget_s"})

#: Reserved names.
RESERVED = frozenset({ALL, JAVA_PREFIX.rstrip(":")})


def is_java(name: str) -> bool:
    """Return whether a name is that of a Java class."""
    return name.startswith(JAVA_PREFIX)


def takes_seed(name: str) -> bool:
    """Return whether the scheduler `name` uses a seed; True if it cannot be imported here.

    Raises
    ------
    InputError
        Unknown name.
    SchedulerError
        It belongs to another package, and is broken.
    """
    if is_java(name):
        return True
    try:
        return _takes(name, "seed")
    except MissingDependencyError:
        return True


def has_search_budget(name: str) -> bool:
    """Return whether the scheduler `name` has a budget of steps or seconds in its parameters `SEARCHING`.

    Raises
    ------
    InputError
        Unknown name.
    SchedulerError
        It belongs to another package, and is broken.
    """
    return not is_java(name) and all(_takes(name, each) for each in SEARCHING)


def rules_in(settings: Sequence[str]) -> dict[str, object]:
    """Return those of some ``key=value`` texts that are options of all schedulers."""
    return {name: value for name, value in parse_settings(settings).items() if name in OPTIONS}


def scheduler_keeping_running(name: str, rules: Mapping[str, object] = MappingProxyType({})) -> Scheduler:
    """Return a registered scheduler that places executors without a slot and, if possible, moves no running one.

    Parameters
    ----------
    name
        Name of the scheduler.
    rules
        Options of all schedulers.

    Raises
    ------
    InputError
        Unknown name, or an option is out of range.
    SchedulerError
        It belongs to another package, and is broken.
    """
    keeping = {"keep_running": True} if _takes(name, "keep_running") else {}
    return make_scheduler(name, {**rules, **keeping})


def _takes(name: str, parameter: str) -> bool:
    return any(field.name == parameter for field in fields(scheduler_type(name).params_type))


def resolve_scheduler(
    name: str,
    settings: Mapping[str, object] | Sequence[str] = (),
    seed: int | None = None,
    jars: Sequence[Path] = (),
    time_limit_s: float | None = None,
) -> Scheduler:
    """Return the scheduler `name`.

    Parameters
    ----------
    name
        A registered name, or ``java:CLASS[:STRATEGY]``: an unmodified Java `IScheduler`.
    settings
        By name, or ``key=value`` texts: parameters of a registered scheduler; for a Java class, keys of Storm's
        configuration that override those of the problem.
    seed
        Seed of randomised schedulers; for a Java class it seeds ``Collections.shuffle``.
    jars
        Class path of Java classes besides Storm's own jars.
    time_limit_s
        Default time limit in seconds for a scheduler that supports one.

    Raises
    ------
    InputError
        An unknown name, parameters that are unknown or out of range, or jars without a Java class.
    MissingDependencyError
        Java or Storm's jars are missing, or another package's scheduler cannot be imported.
    """
    if is_java(name):
        from stormwright.storm.scheduler_host import TIME_LIMIT_CONF, JavaScheduler  # only Java classes need it

        limit = {} if time_limit_s is None else {TIME_LIMIT_CONF: time_limit_s}
        conf = limit | dict(settings if isinstance(settings, Mapping) else parse_settings(settings))
        return JavaScheduler.named(name, conf=conf, seed=seed, jars=jars)
    if jars:
        reason = f"holds Java classes, and {name} is none: the name of a Java scheduler begins with {JAVA_PREFIX}"
        raise InputError("--jar", [Fault(reason, str(jar)) for jar in jars])
    return make_scheduler(name, settings, seed)


def choose_schedulers(
    names: str,
    settings: Sequence[str] = (),
    seed: int | None = None,
    jars: Sequence[Path] = (),
    made_elsewhere: Callable[[str], bool] = lambda _: False,
) -> dict[str, Scheduler | StormwrightError]:
    """Return schedulers by name, or the error of one whose requirements are missing or that is broken.

    Parameters
    ----------
    names
        Names separated by commas, or ``all``.
    settings
        Parameters of the schedulers, each as a text ``NAME.key=value``.
    seed
        Seed of randomised schedulers.
    jars
        Class path of Java classes besides Storm's own jars.
    made_elsewhere
        Names of which only the parameters are validated; they are not in the result.

    Raises
    ------
    InputError
        Names that are unknown, parameters that are unknown or out of range; all faults at once.
    """
    chosen = dict.fromkeys(name for part in names.split(",") if (name := part.strip()))
    if ALL in chosen:
        chosen = dict.fromkeys([*scheduler_names(), *(name for name in chosen if name != ALL)])
    if not chosen:
        message = "names no scheduler; name some, separated by commas, or all"
        raise InputError("schedulers to compare", [Fault(message, names or "$")])
    own, faults = _settings_by_name(list(chosen), settings)
    if jars and not any(map(is_java, chosen)):
        faults.append(Fault(f"only for a Java class ({JAVA_PREFIX}CLASS), and none is compared", str(jars[0])))
    found: dict[str, Scheduler | StormwrightError] = {}
    for name in chosen:
        try:
            if made_elsewhere(name):
                check_settings(name, own[name], seed)
                continue
            found[name] = resolve_scheduler(name, own[name], seed, jars if is_java(name) else ())
        except (MissingDependencyError, SchedulerError) as error:
            found[name] = error
        except InputError as error:
            faults += [replace(fault, path=_under(name, fault.path)) for fault in error.faults]
    if faults:
        raise InputError("schedulers to compare", faults)
    return found


def _under(name: str, path: str) -> str:
    return path if path == name else f"{name}.{path}"


def _settings_by_name(names: Sequence[str], settings: Sequence[str]) -> tuple[dict[str, list[str]], list[Fault]]:
    """Return every scheduler's ``key=value`` texts; the longest matching name wins, as Java class names have dots."""
    own: dict[str, list[str]] = {name: [] for name in names}
    faults = []
    for text in settings:
        owner = max((name for name in names if text.startswith(f"{name}.")), key=len, default=None)
        if owner is None:
            faults.append(Fault(f"should be NAME.key=value, NAME one of {', '.join(names)}", text))
        else:
            own[owner].append(text[len(owner) + 1 :])
    return own, faults


def describe_scheduler(name: str) -> Description:
    """Return the description of the scheduler `name`; the same for all Java classes.

    Raises
    ------
    InputError
        Unknown name.
    MissingDependencyError
        It belongs to another package, and cannot be imported.
    """
    from stormwright.schedulers.toolkit.describe import describe, describe_class  # imported on demand

    if is_java(name):
        from stormwright.storm.scheduler_host import JavaScheduler  # only Java classes need it

        return replace(describe_class(name, JavaScheduler, NoParams), parameters=_java_parameters())
    return describe(name)


def _java_parameters() -> tuple[Parameter, ...]:
    """Return the keys that ``--set`` accepts for a Java class."""
    from stormwright.schedulers.toolkit.describe import Parameter
    from stormwright.storm.scheduler_host import TIME_LIMIT_CONF, TIME_LIMIT_S

    limit = "seconds that the class has for its answer"
    key = "a key of Storm's configuration, laid over that of the problem; a value that is JSON stands for what it is"
    return (
        Parameter(TIME_LIMIT_CONF, "number", TIME_LIMIT_S, limit, 0, None, ()),
        Parameter("KEY", "text or JSON", "VALUE", key, None, None, ()),
    )

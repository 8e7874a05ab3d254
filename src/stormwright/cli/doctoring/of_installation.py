"""Checks of a Storm installation: its jar, its storm.yaml, its versions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from stormwright.cli.doctoring.facts import Facts, Finding, Installation
from stormwright.cli.doctoring.storm_yaml import MONITOR_S
from stormwright.defaults import STORMS_OWN
from stormwright.errors import nearest

SCHEDULER, PROBE = "stormwright.PlacementScheduler", "stormwright.ExecutorProbe"

#: Releases of Storm that it works with.
OLDEST_STORM, NEWEST_STORM = (2, 6), (2, 8)

#: Seconds after which the service takes what Nimbus told last for too old.
MOST_MONITOR_S = 60

OLDEST_PYTHON = (3, 11)

_CLASS = re.compile(r"[A-Za-z_$][\w$]*(\.[A-Za-z_$][\w$]*)*")


def jar(found: Installation, version: str) -> Finding:
    """Our jar is where Nimbus loads it, once, and of this version."""
    name, there = "jar in extlib-daemon", f"{found.home}/extlib-daemon"
    fix = f"copy stormwright-storm-{version}.jar into {there} of every Nimbus host and restart Nimbus"
    if not found.jars:
        return Finding(name, "wrong", f"there is none in {there}", fix)
    if len(found.jars) > 1:
        listed = ", ".join(each.path for each in found.jars)
        return Finding(name, "wrong", f"several: {listed}", f"leave the one of version {version}, restart Nimbus")
    return Finding(name, "ok", found.jars[0].path)


def same_jar(facts: Facts, found: Installation) -> Finding:
    """The jar is the one that belongs to this package."""
    name = "jar equal to package"
    if len(found.jars) != 1:
        return Finding(name, "unknown", "there is not one jar", "put one there first")
    own, built = found.jars[0], facts.built
    if own.version != facts.version:
        told = f"the jar is {own.version}, the package {facts.version}"
        return Finding(name, "wrong", told, "install both of the same version, then restart Nimbus")
    if built is None:
        return Finding(name, "ok", f"both {facts.version}; there is no other jar here to compare what is in it with")
    if built.digest != own.digest:
        told = f"both {own.version}, but {own.path} is another build than {built.path}"
        return Finding(name, "wrong", told, f"copy {built.path} over it, then restart Nimbus")
    return Finding(name, "ok", f"both {facts.version}, the same build")


def scheduler_class(found: Installation, conf: Mapping[str, Any]) -> Finding:
    """Nimbus is told our scheduler, and where the service is."""
    name, told = "class name", conf.get("storm.scheduler")
    fix = f'write storm.scheduler: "{SCHEDULER}" into {found.yaml_path} of every Nimbus and restart it'
    if told is None:
        return Finding(name, "wrong", "storm.scheduler is not set: Storm's own decides", fix)
    if told != SCHEDULER:
        near = " (nearly)" if nearest(str(told), [SCHEDULER]) else ""
        return Finding(name, "wrong", f"storm.scheduler is {told}{near}", fix)
    if not conf.get("stormwright.service.url"):
        add = f'write stormwright.service.url: "http://SERVICE-HOST:7070" into {found.yaml_path} and restart Nimbus'
        return Finding(name, "wrong", "stormwright.service.url is not set: Nimbus asks nobody", add)
    return Finding(name, "ok", f"{told}, which asks {conf['stormwright.service.url']}")


def credentials(found: Installation, conf: Mapping[str, Any]) -> Finding:
    """Nimbus can say who it is, where it is told how."""
    name = "who Nimbus is"
    if wrong := [f"{key} {why}" for key, why in found.credentials.items() if why]:
        fix = "copy the file there, for the user of Nimbus to read: `stormwright token create` makes a token"
        return Finding(name, "wrong", "; ".join(wrong), fix)
    if not found.credentials:
        return Finding(name, "ok", "nothing says it: a service that asks nobody who he is needs no more")
    return Finding(name, "ok", ", ".join(f"{key} {conf[key]}" for key in found.credentials))


def storm_version(found: Installation) -> Finding:
    """Storm is one that it works with."""
    name, told = "Storm", found.storm_version
    least, most = ".".join(map(str, OLDEST_STORM)), ".".join(map(str, NEWEST_STORM))
    numbers = re.match(r"(\d+)\.(\d+)", told or "")
    if numbers is None:
        return Finding(name, "unknown", f"no lib/storm-client-….jar in {found.home}", "name Storm with --storm-home")
    if OLDEST_STORM <= (int(numbers[1]), int(numbers[2])) <= NEWEST_STORM:
        return Finding(name, "ok", f"{told}")
    return Finding(name, "wrong", f"{told}; made for {least} to {most}", f"run Storm {least} to {most}")


def monitor_frequency(conf: Mapping[str, Any]) -> Finding:
    """Nimbus asks before what it told last is too old."""
    name, key = "monitor frequency", "nimbus.monitor.freq.secs"
    told = conf.get(key, MONITOR_S)
    if type(told) not in (int, float) or not told > 0:
        return Finding(name, "wrong", f"{key} is {told}", f"write a number of seconds, such as {key}: {MONITOR_S}")
    if told >= MOST_MONITOR_S:
        text = f"Nimbus asks each {told} s, and after {MOST_MONITOR_S} s what is known counts as too old: nothing moves"
        return Finding(name, "wrong", text, f"write {key}: {MONITOR_S} and restart Nimbus")
    return Finding(name, "ok", f"Nimbus asks each {told} s")


def hook(conf: Mapping[str, Any]) -> Finding:
    """Topologies get the probe without asking for it."""
    name, key = "hook active", "topology.auto.task.hooks"
    hooks = conf.get(key) or []
    fix = f'{key}: ["{PROBE}"], in storm.yaml for all or in a topology\'s configuration for one, at its next submission'
    if isinstance(hooks, list) and PROBE in hooks:
        if conf.get("stormwright.probe.service.url"):
            return Finding(name, "ok", f"{PROBE} for all topologies")
        add = 'write stormwright.probe.service.url: "http://SERVICE-HOST:7070"'
        return Finding(name, "wrong", "stormwright.probe.service.url is not set: records go nowhere", add)
    if hooks:
        return Finding(name, "wrong", f"{key} names {hooks}, not {PROBE}", fix)
    return Finding(name, "unknown", "storm.yaml names no hook: each topology has to", fix)


def fallback(conf: Mapping[str, Any]) -> Finding:
    """Who places while the service is away is one that can."""
    name, key = "fallback", "stormwright.fallback"
    told = conf.get(key, STORMS_OWN)
    fix = f"write {key}: {STORMS_OWN}, none, or the class that storm.scheduler named before; then restart Nimbus"
    if told in (STORMS_OWN, "none"):
        who = "EvenScheduler places" if told == STORMS_OWN else "nobody places"
        return Finding(name, "ok", f"{told}: {who} what the service does not")
    if not isinstance(told, str) or not _CLASS.fullmatch(told):
        return Finding(name, "wrong", f"{key} is {told}, which is no class", fix)
    if told == SCHEDULER:
        return Finding(name, "wrong", f"{key} is {told} itself", fix)
    meant = nearest(told, [STORMS_OWN, "none"])
    if meant and "." not in told:
        return Finding(name, "wrong", f"{key} is {told}: did you mean {meant}?", fix)
    if told.startswith("org.apache.storm.") or "." not in told:
        return Finding(name, "ok", f"{told}, of Storm's own")
    return Finding(name, "unknown", f"{told}, a class of yours", "Nimbus's log says at its start whether it loads it")


def java(facts: Facts) -> Finding:
    """There is a Java that everything runs on."""
    if facts.java is None:
        return Finding("Java", "wrong", facts.java_why_not, "install Java 17 or later, or set JAVA_HOME")
    return Finding("Java", "ok", facts.java)


def python(facts: Facts) -> Finding:
    """Python is new enough."""
    shown, least = ".".join(map(str, facts.python)), ".".join(map(str, OLDEST_PYTHON))
    if facts.python < OLDEST_PYTHON:
        return Finding("Python", "wrong", shown, f"install Python {least} or later")
    return Finding("Python", "ok", shown)


def compiled_code(facts: Facts) -> Finding:
    """Machine code that was brought is taken up, so that the first decision need not compile."""
    name, fix = "compiled code", "install a wheel, or run `make setup` in the clone"
    if facts.able is None:
        return Finding(name, "unknown", "Numba cannot be loaded here", "install stormwright again")
    if not facts.able:
        told = "none is brought for this processor: each function is compiled at its first use, and kept"
        return Finding(name, "unknown", told, "none is needed; the first decisions take a minute longer")
    if not facts.compiled:
        return Finding(name, "wrong", "there is none of these sources: it is compiled at first use", fix)
    if facts.unfit:
        told = f"that of {' and of '.join(facts.unfit)} is of other sources: it is compiled at first use"
        return Finding(name, "wrong", told, fix)
    return Finding(name, "ok", f"{facts.compiled} files fit these sources")

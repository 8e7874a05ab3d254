"""Checks of a Storm installation: its jar, its storm.yaml, its versions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from stormwright.cli.doctor.facts import MONITOR_S, Facts, Finding, Installation
from stormwright.defaults import BASELINE
from stormwright.errors import nearest
from stormwright.model.fallback import PLACEMENT_SCHEDULER
from stormwright.storm.installer import PROBE


def nimbus_reached(found: Installation) -> Finding:
    """Check that a Nimbus accepts connections from here."""
    name, listed = "Nimbus reached", ", ".join(found.nimbus)
    if not found.nimbus:
        return Finding(
            name, "unknown", "storm.yaml cannot be read or has no nimbus.seeds", "set nimbus.seeds in storm.yaml"
        )
    if any(found.nimbus.values()):
        return Finding(name, "ok", ", ".join(each for each, up in found.nimbus.items() if up))
    return Finding(
        name, "wrong", f"no Nimbus accepts connections: {listed}", "start Nimbus, or open its port to this machine"
    )


def installation_findings(facts: Facts, found: Installation) -> Iterator[Finding]:
    """Yield the findings of all checks of an installation, in the order in which to fix them."""
    yield storm_version(found)
    yield jar(found)
    yield same_jar(facts, found)
    if not found.yaml_there:
        fix = "set STORM_CONF_DIR to its directory, or pass another installation with --storm-home"
        yield Finding("storm.yaml", "unknown", f"{found.yaml_path} does not exist", fix)
    elif found.yaml_fault:
        fix = "correct it: Storm cannot read it either"
        yield Finding("storm.yaml", "wrong", f"{found.yaml_path} {found.yaml_fault}", fix)
    elif found.conf is None:
        fix = "set STORM_CONF_DIR to its directory"
        yield Finding("storm.yaml", "unknown", f"{found.yaml_path} cannot be read", fix)
    else:
        yield scheduler_class(found, found.conf)
        yield credentials(found, found.conf)
        yield fallback(found.conf)
        yield monitor_frequency(found.conf)
        yield hook(found.conf)
    yield nimbus_reached(found)


#: Supported lines of Storm (docs/versions.md).
STORM_LINES = ("2.6", "2.7", "2.8", "3.0")

#: Age in seconds at which the service ignores the last snapshot of Nimbus.
MAX_MONITOR_S = 60

_CLASS = re.compile(r"[A-Za-z_$][\w$]*(\.[A-Za-z_$][\w$]*)*")


def jar(found: Installation) -> Finding:
    """Check that Nimbus loads exactly one stormwright jar, of this version."""
    name, there = "jar in extlib-daemon", f"{found.home}/extlib-daemon"
    fix = f"run `stormwright install {found.home}` on every Nimbus host and restart Nimbus"
    if not found.jars:
        return Finding(name, "wrong", f"no jar in {there}", fix)
    if len(found.jars) > 1:
        listed = ", ".join(each.path for each in found.jars)
        return Finding(name, "wrong", f"several jars: {listed}", fix)
    return Finding(name, "ok", found.jars[0].path)


def same_jar(facts: Facts, found: Installation) -> Finding:
    """Check that the jar belongs to this package."""
    name = "jar equal to package"
    if len(found.jars) != 1:
        return Finding(name, "unknown", "there is not exactly one jar", "install exactly one jar")
    own, built = found.jars[0], facts.built
    if own.version != facts.version:
        text = f"the jar is {own.version}, the package {facts.version}"
        return Finding(name, "wrong", text, "install both of the same version, then restart Nimbus")
    if built is None:
        return Finding(name, "ok", f"both {facts.version}; no local build to compare the content with")
    if built.digest != own.digest:
        text = f"both {own.version}, but {own.path} is another build than {built.path}"
        return Finding(name, "wrong", text, f"run `stormwright install {found.home}`, then restart Nimbus")
    return Finding(name, "ok", f"both {facts.version}, the same build")


def scheduler_class(found: Installation, conf: Mapping[str, Any]) -> Finding:
    """Check that Nimbus is configured with our scheduler and the service's address."""
    name, text = "class name", conf.get("storm.scheduler")
    fix = f"run `stormwright install {found.home}` on every Nimbus host and restart Nimbus"
    if text is None:
        return Finding(name, "wrong", "storm.scheduler is not set: Storm uses its own scheduler", fix)
    if text != PLACEMENT_SCHEDULER:
        near = " (nearly)" if nearest(str(text), [PLACEMENT_SCHEDULER]) else ""
        return Finding(name, "wrong", f"storm.scheduler is {text}{near}", fix)
    if not conf.get("stormwright.service.url"):
        add = f"run `stormwright install {found.home} --service http://HOST:7070` and restart Nimbus"
        return Finding(name, "wrong", "stormwright.service.url is not set: Nimbus calls no service", add)
    return Finding(name, "ok", f"{text}, calling {conf['stormwright.service.url']}")


def credentials(found: Installation, conf: Mapping[str, Any]) -> Finding:
    """Check that Nimbus has the credentials that it is configured with."""
    name = "credentials of Nimbus"
    if wrong := [f"{key} {why}" for key, why in found.credentials.items() if why]:
        fix = "copy the file there, readable by the user of Nimbus; `stormwright token create` creates a token"
        return Finding(name, "wrong", "; ".join(wrong), fix)
    if not found.credentials:
        return Finding(name, "ok", "no token is configured: enough for a service without authentication")
    return Finding(name, "ok", ", ".join(f"{key} {conf[key]}" for key in found.credentials))


def storm_version(found: Installation) -> Finding:
    """Check that the release of Storm is supported."""
    name, text = "Storm", found.storm_version
    line = re.match(r"\d+\.\d+", text or "")
    if line is None:
        return Finding(name, "unknown", f"no lib/storm-client-….jar in {found.home}", "pass another --storm-home")
    if line[0] in STORM_LINES:
        return Finding(name, "ok", f"{text}")
    lines = f"{', '.join(STORM_LINES[:-1])} and {STORM_LINES[-1]}"
    return Finding(name, "wrong", f"{text}; supported are {lines}", f"use Storm {lines.replace(' and ', ' or ')}")


def monitor_frequency(conf: Mapping[str, Any]) -> Finding:
    """Check that Nimbus calls before its last snapshot is too old."""
    name, key = "monitor frequency", "nimbus.monitor.freq.secs"
    seconds = conf.get(key, MONITOR_S)
    if type(seconds) not in (int, float) or not seconds > 0:
        return Finding(name, "wrong", f"{key} is {seconds}", f"set a number of seconds, such as {key}: {MONITOR_S}")
    if seconds >= MAX_MONITOR_S:
        text = f"Nimbus calls every {seconds} s; snapshots older than {MAX_MONITOR_S} s are not used, so nothing moves"
        return Finding(name, "wrong", text, f"write {key}: {MONITOR_S} and restart Nimbus")
    return Finding(name, "ok", f"Nimbus calls every {seconds} s")


def hook(conf: Mapping[str, Any]) -> Finding:
    """Check that all topologies get the probe automatically."""
    name, key = "hook active", "topology.auto.task.hooks"
    hooks = conf.get(key) or []
    fix = f'{key}: ["{PROBE}"], in storm.yaml for all or in a topology\'s configuration for one, at its next submission'
    if isinstance(hooks, list) and PROBE in hooks:
        if conf.get("stormwright.probe.service.url"):
            return Finding(name, "ok", f"{PROBE} for all topologies")
        add = 'write stormwright.probe.service.url: "http://SERVICE-HOST:7070"'
        return Finding(name, "wrong", "stormwright.probe.service.url is not set: records are not sent", add)
    if hooks:
        return Finding(name, "wrong", f"{key} is {hooks}, without {PROBE}", fix)
    return Finding(name, "unknown", "storm.yaml sets no hook: each topology has to set it", fix)


def fallback(conf: Mapping[str, Any]) -> Finding:
    """Check that the fallback scheduler exists."""
    name, key = "fallback", "stormwright.fallback"
    text = conf.get(key, BASELINE)
    fix = f"write {key}: {BASELINE}, none, or the class that storm.scheduler named before; then restart Nimbus"
    if text in (BASELINE, "none"):
        who = "EvenScheduler places" if text == BASELINE else "no scheduler places"
        return Finding(name, "ok", f"{text}: {who} topologies without an answer of the service")
    if not isinstance(text, str) or not _CLASS.fullmatch(text):
        return Finding(name, "wrong", f"{key} is {text}, which is not a class", fix)
    if text == PLACEMENT_SCHEDULER:
        return Finding(name, "wrong", f"{key} is {text} itself", fix)
    meant = nearest(text, [BASELINE, "none"])
    if meant and "." not in text:
        return Finding(name, "wrong", f"{key} is {text}: did you mean {meant}?", fix)
    if text.startswith("org.apache.storm.") or "." not in text:
        return Finding(name, "ok", f"{text}, a class of Storm")
    return Finding(
        name,
        "unknown",
        f"{text}, not a class of Storm",
        "check the log of Nimbus from its start: it reports whether the class was loaded",
    )

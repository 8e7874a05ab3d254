"""Checks of a Storm installation: its jar, its storm.yaml, its versions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from stormwright.cli.doctor.facts import MONITOR_S, Facts, Finding, Installation, ServiceFacts
from stormwright.defaults import BASELINE
from stormwright.errors import nearest
from stormwright.model.fallback import PLACEMENT_SCHEDULER
from stormwright.storm.installer import PROBE

# Service ------------------------------------------------------------------------------------------
# Checks of a running service: connections in both directions, clocks, records.

#: Maximum difference of clocks in seconds: records from further ahead are refused, those from further back are late.
MAX_SKEW_S = 2.0

#: Age in seconds at which the measured load is too old for moves.
MAX_PROFILE_S = 45.0

#: Maximum fraction of rejected lines.
MAX_QUARANTINED = 0.001


def reached(service: ServiceFacts) -> Finding:
    """Check that the service can be reached from here."""
    name = "service reached"
    if service.why_not is None:
        return Finding(name, "ok", f"{service.address} answers")
    if service.requires_token:
        fix = "pass a token with the role viewer: --token-file or STORMWRIGHT_TOKEN"
        return Finding(name, "wrong", f"{service.address}: {service.why_not}", fix)
    fix = (
        "start `stormwright serve` with a --host that this machine can reach, open its port, or pass another --service"
    )
    return Finding(name, "wrong", f"{service.address}: {service.why_not}", fix)


def stands_by(service: ServiceFacts) -> Finding | None:
    """Report that another service leads; None for the leader or a single service."""
    pair = service.status.get("pair") or {}
    if not pair.get("stands_by"):
        return None
    if leads := pair.get("leads"):
        return Finding("leads", "ok", f"this service stands by, {leads} leads: check that one with --service, too")
    fix = "wait a few seconds, then check its log"
    return Finding("leads", "wrong", "this service stands by, and no service leads", fix)


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


def nimbus_calls(service: ServiceFacts) -> Finding:
    """Check that Nimbus has reached the service."""
    name = "Nimbus calls the service"
    if service.called_by_nimbus is None:
        return Finding(name, "unknown", "the service did not report it", "make the service reachable first")
    if service.called_by_nimbus:
        return Finding(name, "ok", "Nimbus has called the service")
    fix = "check stormwright.service.url in the storm.yaml of Nimbus, the network between them, and the log of Nimbus"
    return Finding(name, "wrong", "no call since the service started", fix)


def same_version(facts: Facts, service: ServiceFacts) -> Finding:
    """Check that the service has the version of this package."""
    name = "versions"
    if service.version is None:
        return Finding(
            name, "unknown", "the service reports no version", "check that the address is that of a stormwright service"
        )
    if service.version != facts.version:
        text = f"the service is {service.version}, this is {facts.version}"
        return Finding(name, "wrong", text, "install the same version on both, then restart the service")
    return Finding(name, "ok", f"stormwright {facts.version}, same as the service")


def clock_skew(service: ServiceFacts) -> Finding:
    """Check that the service's clock agrees with this machine's."""
    name = "clock skew"
    if service.skew_s is None:
        return Finding(name, "unknown", "the service reported no time", "compare `date` on both")
    if abs(service.skew_s) > MAX_SKEW_S:
        side = "ahead of" if service.skew_s > 0 else "behind"
        text = f"the service's clock is {abs(service.skew_s):.0f} s {side} this machine's"
        return Finding(name, "wrong", text, "synchronise the clocks of all hosts, with NTP or chrony")
    return Finding(
        name, "ok", f"under {MAX_SKEW_S:g} s between the service and this machine; run doctor on other hosts, too"
    )


def record_gaps(service: ServiceFacts) -> Iterator[Finding]:
    """Check that records arrive completely, and are processed."""
    name, pipeline = "records", service.status.get("pipeline")
    if not isinstance(pipeline, dict):
        yield Finding(name, "unknown", "the service did not report it", "make the service reachable first")
        return
    age_s, ledger = pipeline.get("profile_age_s"), pipeline.get("ledger") or {}
    log = "check the service's log, and `stormwright pipeline quarantine`"
    if not pipeline.get("running") and not pipeline.get("error"):
        yield Finding(name, "unknown", "the pipeline is starting", "wait some seconds, and run doctor again")
    elif not pipeline.get("running"):
        yield Finding(name, "wrong", f"the pipeline has stopped: {pipeline['error']}", log)
    elif age_s is None:
        fix = "submit a topology with the probe; check stormwright.probe.service.url and the log of its workers"
        yield Finding(name, "unknown", "no record has arrived yet", fix)
    elif age_s > MAX_PROFILE_S:
        text = f"the load was measured {age_s:.0f} s ago, more than {MAX_PROFILE_S:g} s"
        yield Finding(name, "wrong", text, "check that topologies with the probe run, and the log of their workers")
    else:
        yield Finding(name, "ok", f"the load was measured {max(age_s, 0.0):.0f} s ago")
    yield _gaps(ledger, pipeline.get("files_set_aside") or 0, log)


def _gaps(ledger: Mapping[str, Any], aside: int, fix: str) -> Finding:
    name, read, lost = "record gaps", ledger.get("read", 0), ledger.get("quarantined", 0)
    if aside or lost > MAX_QUARANTINED * read:
        text = f"{lost:,} of {read:,} lines were rejected, {aside} files were set aside"
        return Finding(name, "wrong", text, fix)
    if not read:
        return Finding(name, "unknown", "no line was read yet", "wait until a topology with the probe runs")
    return Finding(name, "ok", f"{lost:,} of {read:,} lines were rejected")


def measured(service: ServiceFacts) -> Finding:
    """Check that all topologies report."""
    name, waits = "topologies measured", service.status.get("waits")
    if not isinstance(waits, list):
        return Finding(name, "unknown", "the service did not report it", "make the service reachable first")
    if waits:
        more = f"; and {len(waits) - 3} more" if len(waits) > 3 else ""
        fix = "submit topologies without the probe again; wait for the others"
        return Finding(name, "unknown", "; ".join(map(str, waits[:3])) + more, fix)
    return Finding(name, "ok", "all topologies are measured")


# All checks ---------------------------------------------------------------------------------------
# All checks, over all facts.


def all_findings(facts: Facts) -> list[Finding]:
    """Return the findings of all checks, in the order in which to fix them."""
    found = [python(facts), java(facts), compiled_code(facts)]
    if facts.installation is None:
        found.append(Finding("Storm", "unknown", "no installation was found", "pass --storm-home"))
    else:
        found += _of_installation(facts, facts.installation)
    if facts.service is not None:
        found += _of_service(facts, facts.service)
    return found


def _of_installation(facts: Facts, found: Installation) -> Iterator[Finding]:
    yield storm_version(found)
    yield jar(found)
    yield same_jar(facts, found)
    if not found.yaml_there:
        fix = "set STORM_CONF_DIR to its directory, or pass another installation with --storm-home"
        yield Finding("storm.yaml", "unknown", f"{found.yaml_path} does not exist", fix)
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


def _of_service(facts: Facts, service: ServiceFacts) -> Iterator[Finding]:
    yield reached(service)
    if service.why_not is None:
        yield same_version(facts, service)
        if standing := stands_by(service):
            yield standing
            return
        yield nimbus_calls(service)
        yield clock_skew(service)
        yield from record_gaps(service)
        yield measured(service)


# Checks -------------------------------------------------------------------------------------------

#: Supported lines of Storm (docs/versions.md).
STORM_LINES = ("2.6", "2.7", "2.8", "3.0")

#: Age in seconds at which the service ignores the last snapshot of Nimbus.
MAX_MONITOR_S = 60

OLDEST_PYTHON = (3, 11)

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


def java(facts: Facts) -> Finding:
    """Check that a supported Java exists."""
    if facts.java is None:
        return Finding("Java", "wrong", facts.java_why_not, "install Java 17 or later, or set JAVA_HOME")
    return Finding("Java", "ok", facts.java)


def python(facts: Facts) -> Finding:
    """Check that Python is new enough."""
    shown, least = ".".join(map(str, facts.python)), ".".join(map(str, OLDEST_PYTHON))
    if facts.python < OLDEST_PYTHON:
        return Finding("Python", "wrong", shown, f"install Python {least} or later")
    return Finding("Python", "ok", shown)


def compiled_code(facts: Facts) -> Finding:
    """Check that prebuilt machine code is used, so that the first decision does not compile."""
    name, fix = "compiled code", "install a wheel, or run `make setup` in the clone"
    if facts.able is None:
        return Finding(name, "unknown", "Numba cannot be loaded here", "install stormwright again")
    if not facts.able:
        text = "no prebuilt code for this processor: each function is compiled at its first use, then cached"
        return Finding(name, "unknown", text, "nothing to do; the first decisions take a minute longer")
    if not facts.compiled:
        return Finding(name, "wrong", "no prebuilt code fits these sources: functions are compiled at first use", fix)
    if facts.unfit:
        text = f"prebuilt code of {' and '.join(facts.unfit)} is of other sources: it is compiled at first use"
        return Finding(name, "wrong", text, fix)
    return Finding(name, "ok", f"{facts.compiled} files fit these sources")

"""Checks of a running service: reached both ways, clocks, what its records tell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from stormwright.cli.doctoring.facts import Facts, Finding, Installation, ServiceFacts

#: Seconds by which clocks may differ: records from further ahead are refused, those from further back come too late.
MOST_SKEW_S = 2.0

#: Seconds after which the load that was measured last is too old for anything to move.
MOST_PROFILE_S = 45.0

#: Share of lines that did not count from which on something is amiss.
MOST_QUARANTINED = 0.001


def reached(service: ServiceFacts) -> Finding:
    """The service answers from here."""
    name = "service reached"
    if service.why_not is None:
        return Finding(name, "ok", f"{service.address} answers")
    if service.asks:
        fix = "say a token of role viewer: --token-file or STORMWRIGHT_TOKEN"
        return Finding(name, "wrong", f"{service.address}: {service.why_not}", fix)
    fix = "start `stormwright serve` with a --host that this machine reaches, or open its port; --service names another"
    return Finding(name, "wrong", f"{service.address}: {service.why_not}", fix)


def stands_by(service: ServiceFacts) -> Finding | None:
    """Another service leads, which is to be asked for all else; None for one that leads or is alone."""
    pair = service.status.get("pair") or {}
    if not pair.get("stands_by"):
        return None
    if leads := pair.get("leads"):
        return Finding("leads", "ok", f"this one stands by, and {leads} leads: ask that one with --service, too")
    fix = "wait some seconds, and see its log"
    return Finding("leads", "wrong", "this one stands by, and nobody leads", fix)


def nimbus_reached(found: Installation) -> Finding:
    """A Nimbus takes connections from here."""
    name, listed = "Nimbus reached", ", ".join(found.nimbus)
    if not found.nimbus:
        return Finding(name, "unknown", "storm.yaml cannot be read or names no nimbus.seeds", "name it there")
    if any(found.nimbus.values()):
        return Finding(name, "ok", ", ".join(each for each, up in found.nimbus.items() if up))
    return Finding(
        name, "wrong", f"none takes a connection: {listed}", "start Nimbus, or open its port to this machine"
    )


def nimbus_asks(service: ServiceFacts) -> Finding:
    """Nimbus has asked the service: the way back."""
    name = "Nimbus asks the service"
    if service.asked is None:
        return Finding(name, "unknown", "the service does not tell", "see that it is reached first")
    if service.asked:
        return Finding(name, "ok", "it has asked")
    fix = "see stormwright.service.url in storm.yaml of Nimbus, that Nimbus reaches it, and its log"
    return Finding(name, "wrong", "it never has since the service started", fix)


def same_version(facts: Facts, service: ServiceFacts) -> Finding:
    """The service is of this version."""
    name = "versions"
    if service.version is None:
        return Finding(name, "unknown", "the service says none", "see that it is stormwright that answers there")
    if service.version != facts.version:
        told = f"the service is {service.version}, this is {facts.version}"
        return Finding(name, "wrong", told, "install the same version on both, and start the service again")
    return Finding(name, "ok", f"stormwright {facts.version}, the service too")


def clock_skew(service: ServiceFacts) -> Finding:
    """The service's clock goes with this machine's."""
    name = "clock skew"
    if service.skew_s is None:
        return Finding(name, "unknown", "the service tells no time", "compare `date` on both")
    if abs(service.skew_s) > MOST_SKEW_S:
        side = "ahead of" if service.skew_s > 0 else "behind"
        told = f"the service's clock is {abs(service.skew_s):.0f} s {side} this machine's"
        return Finding(name, "wrong", told, "let NTP or chrony set the clocks of all hosts")
    return Finding(
        name, "ok", f"under {MOST_SKEW_S:g} s between the service and this machine; run it on other hosts too"
    )


def record_gaps(service: ServiceFacts) -> Iterator[Finding]:
    """Records come, all of them, and are worked on."""
    name, pipeline = "records", service.status.get("pipeline")
    if not isinstance(pipeline, dict):
        yield Finding(name, "unknown", "the service does not tell", "see that it is reached first")
        return
    age_s, ledger = pipeline.get("profile_age_s"), pipeline.get("ledger") or {}
    log = "see the service's log, and `stormwright pipeline quarantine`"
    if not pipeline.get("running"):
        yield Finding(name, "wrong", f"the pipeline stands still: {pipeline.get('error')}", log)
    elif age_s is None:
        fix = "submit a topology with the probe, and see stormwright.probe.service.url and the log of its workers"
        yield Finding(name, "unknown", "none has come yet", fix)
    elif age_s > MOST_PROFILE_S:
        told = f"the load was measured {age_s:.0f} s ago, more than {MOST_PROFILE_S:g} s"
        yield Finding(name, "wrong", told, "see whether topologies with the probe run, and the log of their workers")
    else:
        yield Finding(name, "ok", f"the load was measured {age_s:.0f} s ago")
    yield _gaps(ledger, pipeline.get("files_set_aside") or 0, log)


def _gaps(ledger: Mapping[str, Any], aside: int, fix: str) -> Finding:
    name, read, lost = "record gaps", ledger.get("read", 0), ledger.get("quarantined", 0)
    if aside or lost > MOST_QUARANTINED * read:
        told = f"{lost:,} of {read:,} lines did not count, {aside} files were set aside"
        return Finding(name, "wrong", told, fix)
    if not read:
        return Finding(name, "unknown", "no line was read yet", "wait until a topology with the probe runs")
    return Finding(name, "ok", f"{lost:,} of {read:,} lines did not count")


def measured(service: ServiceFacts) -> Finding:
    """All topologies report."""
    name, waits = "topologies measured", service.status.get("waits")
    if not isinstance(waits, list):
        return Finding(name, "unknown", "the service does not tell", "see that it is reached first")
    if waits:
        more = f"; and {len(waits) - 3} more" if len(waits) > 3 else ""
        fix = "those without the probe get it at their next submission; the others need time"
        return Finding(name, "unknown", "; ".join(map(str, waits[:3])) + more, fix)
    return Finding(name, "ok", "none waits to be measured")

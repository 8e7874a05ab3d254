"""Checks of a running service: connections in both directions, clocks, records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from stormwright.cli.doctor.facts import Facts, Finding, ServiceFacts

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


def service_findings(facts: Facts, service: ServiceFacts) -> Iterator[Finding]:
    """Yield the findings of all checks of a service, in the order in which to fix them."""
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

"""All checks, over all facts."""

from __future__ import annotations

from collections.abc import Iterator

from stormwright.cli.doctoring import of_installation, of_service
from stormwright.cli.doctoring.facts import Facts, Finding, Installation, ServiceFacts


def judged(facts: Facts) -> list[Finding]:
    """What every check came to, in an order to mend things in."""
    found = [of_installation.python(facts), of_installation.java(facts), of_installation.compiled_code(facts)]
    if facts.installation is None:
        found.append(Finding("Storm", "unknown", "none was found", "name it with --storm-home"))
    else:
        found += _of_installation(facts, facts.installation)
    if facts.service is not None:
        found += _of_service(facts, facts.service)
    return found


def _of_installation(facts: Facts, found: Installation) -> Iterator[Finding]:
    yield of_installation.storm_version(found)
    yield of_installation.jar(found, facts.version)
    yield of_installation.same_jar(facts, found)
    if not found.yaml_there:
        fix = "name the directory that has it in STORM_CONF_DIR, or another installation with --storm-home"
        yield Finding("storm.yaml", "unknown", f"there is no file {found.yaml_path}", fix)
    elif found.conf is None:
        fix = "name its directory in STORM_CONF_DIR, and install stormwright[yaml]"
        yield Finding("storm.yaml", "unknown", f"{found.yaml_path} cannot be read", fix)
    else:
        yield of_installation.scheduler_class(found, found.conf)
        yield of_installation.credentials(found, found.conf)
        yield of_installation.fallback(found.conf)
        yield of_installation.monitor_frequency(found.conf)
        yield of_installation.hook(found.conf)
    yield of_service.nimbus_reached(found)


def _of_service(facts: Facts, service: ServiceFacts) -> Iterator[Finding]:
    yield of_service.reached(service)
    if service.why_not is None:
        yield of_service.same_version(facts, service)
        if standing := of_service.stands_by(service):
            yield standing
            return
        yield of_service.nimbus_asks(service)
        yield of_service.clock_skew(service)
        yield from of_service.record_gaps(service)
        yield of_service.measured(service)

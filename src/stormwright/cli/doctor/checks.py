"""All checks of ``stormwright doctor``: this machine, the Storm installation, and the service."""

from __future__ import annotations

from stormwright.cli.doctor.facts import Facts, Finding
from stormwright.cli.doctor.installation_checks import installation_findings
from stormwright.cli.doctor.service_checks import service_findings

OLDEST_PYTHON = (3, 11)


def all_findings(facts: Facts) -> list[Finding]:
    """Return the findings of all checks, in the order in which to fix them."""
    found = [python(facts), java(facts), compiled_code(facts)]
    if facts.installation is None:
        found.append(Finding("Storm", "unknown", "no installation was found", "pass --storm-home"))
    else:
        found += installation_findings(facts, facts.installation)
    if facts.service is not None:
        found += service_findings(facts, facts.service)
    return found


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

"""``stormwright doctor``: diagnose an installation and suggest fixes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stormwright.cli import options
from stormwright.cli.lines import say, shows_all
from stormwright.cli.output import print_json
from stormwright.errors import MissingDependencyError
from stormwright.model.humanize import counted

if TYPE_CHECKING:
    from stormwright.cli.doctor.facts import Finding

#: Maximum number of findings without ``--all``.
_MAX_FINDINGS = 8


def _verdict(found: Sequence[Finding]) -> str:
    """Return how many checks are ok, wrong and unknown, as one sentence."""
    counts = Counter(each.verdict for each in found)
    wrong = counts["wrong"]
    text = f"{counted(wrong, 'check')} {'fails' if wrong == 1 else 'fail'}" if wrong else "No check fails"
    unknown = f", {counts['unknown']:,} could not be made" if counts["unknown"] else ""
    return f"{text}{unknown}; {counts['ok']:,} of {len(found):,} are ok."


@click.command()
@options.storm_home("Storm installation to look at.  [default: what STORM_HOME or the storm on PATH say]")
@options.service_address
@options.token
@options.everything
@options.as_json("Print it as JSON.")
def command(storm_home: Path | None, address: str, as_json: bool) -> None:
    """Jar, storm.yaml, versions, connections in both directions, clocks and records are checked.

    It is most informative on a Nimbus host, and changes nothing. Exits with 2 if a check fails; unknown is not a
    failure.
    """
    from stormwright.cli.doctor.checks import all_findings
    from stormwright.cli.doctor.gather import gathered
    from stormwright.storm.jvm import find_storm_home

    if storm_home is None:
        try:
            storm_home = find_storm_home()
        except MissingDependencyError:
            storm_home = None
    found = all_findings(gathered(storm_home, address))
    wrong = sum(each.verdict == "wrong" for each in found)
    if as_json:
        print_json({"wrong": wrong, "checks": [asdict(each) for each in found]})
    else:
        say(_verdict(found))
        ordered = sorted(found, key=lambda each: ("wrong", "unknown", "ok").index(each.verdict))
        shown = found if shows_all() else [each for each in ordered if each.verdict != "ok"][:_MAX_FINDINGS]
        for each in shown:
            say(f"{each.verdict:<8}{each.check}: {each.text}")
            if each.fix:
                say(f"        → {each.fix}")
        if left := len(found) - len(shown):
            say(f"and {counted(left, 'more check')}; --all shows them")
    if wrong:
        click.get_current_context().exit(2)

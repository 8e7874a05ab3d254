"""``stormwright doctor``: diagnose an installation and suggest fixes."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from stormwright.cli import options
from stormwright.cli.lines import say
from stormwright.cli.output import print_json
from stormwright.errors import MissingDependencyError


@click.command()
@options.storm_home("Storm installation to look at.  [default: what STORM_HOME or the storm on PATH say]")
@options.service_address
@options.token
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
        for each in found:
            say(f"{each.verdict:<8}{each.check}: {each.text}")
            if each.fix:
                say(f"        → {each.fix}")
    if wrong:
        click.get_current_context().exit(2)

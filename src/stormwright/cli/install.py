"""``stormwright install``: install the jar and the keys of storm.yaml into a Storm installation."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

import click

from stormwright.cli import options
from stormwright.cli.lines import say
from stormwright.cli.output import print_json
from stormwright.errors import Fault, InputError
from stormwright.service.auth.settings import is_loopback
from stormwright.storm.installer import (
    DEFAULT_SERVICE,
    JAR_DIRECTORIES,
    PROBE,
    SHORT_TIMES,
    FileChange,
    StormYamlSettings,
    install,
    unchanged_times,
    uninstall,
)
from stormwright.storm.jvm import conf_directory

#: Options of what is set, which `--uninstall` does without.
_SETTINGS = ("service", "daemons", "token_file", "probe_all", "short_times")


@click.command()
@click.argument("storm_home", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option(
    "--service",
    metavar="URL",
    help="URL of the service, as this host reaches it; of a pair both, separated by a comma."
    f"  [default: as installed, else {DEFAULT_SERVICE}]",
)
@click.option(
    "--daemon",
    "daemons",
    type=click.Choice(list(JAR_DIRECTORIES)),
    multiple=True,
    help="Daemon of Storm that runs on this host; may be repeated.  [default: as installed, else both]",
)
@click.option(
    "--token-file",
    type=options.PATH,
    metavar="FILE",
    help="File on this host with the token of Nimbus (role bridge) or of the probes (role probe)."
    "  [default: as installed, else none]",
)
@click.option(
    "--with-probe/--without-probe",
    "probe_all",
    default=None,
    help="Add the probe to all topologies, or to none: topologies name it themselves."
    "  [default: as installed, else with]",
)
@click.option(
    "--short-times/--storm-times",
    default=None,
    help="Set shorter times of Storm, for shorter pauses and recoveries; each is shown with its gain and risk."
    "  [default: as installed, else Storm's]",
)
@click.option("--uninstall", "removes", is_flag=True, help="Remove the jar and the keys, and restore replaced lines.")
@click.option("--yes", is_flag=True, help="Make the changes without a question.")
@click.option("--dry-run", is_flag=True, help="Show the changes only.")
@options.as_json("Print the changes as JSON.")
def command(
    storm_home: Path,
    service: str | None,
    daemons: Sequence[str],
    token_file: Path | None,
    probe_all: bool | None,
    short_times: bool | None,
    removes: bool,
    yes: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """STORM_HOME is the directory of Storm on a host of Nimbus or of a supervisor; run it on each of them.

    It copies the jar into extlib-daemon (Nimbus) and extlib (supervisors), and writes storm.scheduler, the address of
    the service, the fallback (the scheduler named before) and the probe into storm.yaml. It shows the difference first.
    Nothing moves: running topologies stay where they are.
    """
    home = storm_home.absolute()
    storm_yaml = conf_directory(home) / "storm.yaml"
    unchanged = dict[str, object]()
    if removes:
        if faults := options.idle(dict.fromkeys(_SETTINGS, "--uninstall removes all that was set")):
            raise InputError("install", faults)
        changes = uninstall(home, storm_yaml)
    else:
        file = token_file.absolute() if token_file else None
        addresses = _addresses(service) if service else None
        settings = StormYamlSettings(addresses, daemons or None, file, probe_all, short_times)
        changes = install(home, storm_yaml, settings)
        unchanged = unchanged_times(storm_yaml) if short_times else {}
    if not as_json:
        _show(changes, home, removes)
        if changes and removes:
            say(f"topologies whose own configuration names {PROBE} need the jar: submit them without it first")
        if token_file and not removes and not token_file.exists():
            say(f"{token_file} does not exist yet")
        for key, value in unchanged.items():
            say(f"{key} stays as storm.yaml has it, {value}; {SHORT_TIMES[key].value} is advised")
        if changes and not removes and not _sets_short_times(changes):
            say("pauses and recoveries are shorter with --short-times, which sets a few times of Storm")
    applied = bool(changes) and not dry_run and _is_confirmed(yes, as_json)
    if applied:
        _apply(changes)
    if as_json:
        listed = [{"path": str(each.path), "action": each.action, "difference": each.difference()} for each in changes]
        print_json(
            {
                "storm_home": str(home),
                "uninstall": removes,
                "applied": applied,
                "changes": listed,
                "unchanged": unchanged,
            }
        )
    elif applied:
        done, effect = ("removed", "unload") if removes else ("installed", "load")
        say(f"{done}; restart Nimbus and the supervisors of this host to {effect} it")
        if not removes and (service is None or is_loopback(urlsplit(service).hostname or "")):
            say(f"then: stormwright serve --storm-home {home} --state DIR")


def _sets_short_times(changes: Sequence[FileChange]) -> bool:
    return any(each.gain.encode() in (change.after or b"") for change in changes for each in SHORT_TIMES.values())


def _addresses(service: str) -> str:
    """Return the URLs of the service without the slashes at their ends."""
    urls = service.split(",")
    if faults := [Fault("is no URL such as http://HOST:7070", url) for url in urls if not _is_url(url)]:
        raise InputError("--service", faults)
    return ",".join(url.rstrip("/") for url in urls)


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        is_port = parts.port != 0
    except ValueError:
        return False
    return (
        parts.scheme in ("http", "https")
        and bool(parts.hostname)
        and is_port
        and text.isprintable()
        and " " not in text
    )


def _show(changes: Sequence[FileChange], home: Path, removes: bool) -> None:
    if not changes:
        say(f"nothing to do: {home} {'has nothing of stormwright' if removes else 'is up to date'}")
    for change in changes:
        for line in change.difference():
            say(line)


def _is_confirmed(yes: bool, as_json: bool) -> bool:
    if yes:
        return True
    if as_json or not sys.stdin.isatty():
        raise InputError(
            "install", [Fault("nothing was changed: --yes makes these changes, --dry-run only shows them", "--yes")]
        )
    return click.confirm("make these changes?", default=False)


def _apply(changes: Sequence[FileChange]) -> None:
    for change in changes:
        try:
            change.apply()
        except OSError as error:
            why = f"cannot be {change.action}d: {error.strerror or error}; run it again as a user who may write there"
            raise InputError("install", [Fault(why, str(change.path))]) from error

"""Journal and audit log of a service as text."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from stormwright.cli.asking import client_of
from stormwright.cli.lines import say
from stormwright.cli.output import print_json, print_table, text_table
from stormwright.client.shapes import HistoryEntry, MoveEntry
from stormwright.errors import StormwrightError
from stormwright.model.humanize import in_utc

#: Maximum number of entries.
MAX = 1000


def print_audit(state_dir: Path, limit: int, as_json: bool) -> None:
    """Print the newest lines of a service's log of changes and refusals.

    Raises
    ------
    StormwrightError
        The log cannot be read.
    """
    from stormwright.service.auth.audit import FILE, audit_lines
    from stormwright.service.storage.database import FILE as DATABASE

    path = state_dir / FILE
    if not (path.exists() or (state_dir / DATABASE).exists()):
        raise StormwrightError(f"{state_dir} is no state directory of a service: it has neither {FILE} nor {DATABASE}")
    try:
        found = list(islice(audit_lines(path), limit))
    except OSError as error:
        raise StormwrightError(f"{error.filename or path} cannot be read: {error.strerror}") from error
    if as_json:
        print_json({"audit": found})
        return
    table = text_table("at", "who", "role", "from", "what", "status", "why")
    for each in found:
        why = each.get("why") or each.get("reason") or ""
        who = each.get("who") or each.get("by") or "unknown"
        cells = (each.get("at"), who, each.get("role"), each.get("from"), each.get("what"), each.get("status"), why)
        table.add_row(*("" if cell is None else cell for cell in cells))
    print_table(table)


#: Mode → its description.
_AUTOMATION = {
    "observe": "it moves nothing automatically",
    "suggest": "it makes plans, which people apply",
    "auto": "it moves what pays",
}


def print_entries(address: str, by: str, limit: int, as_json: bool) -> None:
    """Print the newest entries of a service's history.

    Parameters
    ----------
    address, by
        Address of the service, and the user's name.
    limit
        Maximum number of entries.
    as_json
        Whether to print them as JSON.
    """
    client = client_of(address, by)
    found = client.history(limit)
    if as_json:
        print_json(found.model_dump(mode="json"))
        return
    if not found.entries:
        say("no entries yet: moves, reverts and changes of mode are listed here, with their outcome")
        mode = client.modes().default
        say(f"the mode is {mode}: {_AUTOMATION[mode]}; `stormwright plan` shows possible moves")
        return
    table = text_table("n", "at", "entry", "who", "why", "outcome")
    for each in found.entries:
        kind = f"plan {each.plan} ({each.kind})" if each.plan else each.kind
        table.add_row(each.n, in_utc(each.at_ms), kind, each.who, each.reason, evaluations_of(each))
    print_table(table)
    if found.more:
        say(f"there are older ones: --limit {min(2 * limit, MAX)}" if limit < MAX else "there are older ones")


def evaluations_of(done: HistoryEntry) -> str:
    """Return the outcome of an entry in one line."""
    return "; ".join(_outcome_parts(done)) or done.text


def _outcome_parts(done: HistoryEntry) -> Iterator[str]:
    for move in done.moves:
        if move.failure:
            yield f"{move.name}: {move.failure}"
        elif move.evaluations:
            yield f"{move.name}: {', '.join(_entry_outcome(move))}"
        else:
            pause = "" if move.pause_s is None else f", paused {move.pause_s:.0f} s"
            yield f"{move.name} moved{pause}"


def _entry_outcome(move: MoveEntry) -> Iterator[str]:
    for each in move.evaluations:
        measured = "unknown" if each.measured is None else f"×{each.measured:.2f}"
        yield f"{each.quantity} {measured} (promised ×{each.predicted:.2f}): {each.verdict_text}"

"""The log of changes and refusals, as people read it."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

from stormwright.cli.output import print_json, print_table, text_table
from stormwright.errors import StormwrightError


def print_audit(state_dir: Path, limit: int, as_json: bool) -> None:
    """Print the newest lines of a service's log of changes and refusals.

    Raises
    ------
    StormwrightError
        It cannot be read.
    """
    from stormwright.service.auth.audit import FILE, audit_lines

    path = state_dir / FILE
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
        who = each.get("who") or each.get("by") or "nobody known"
        cells = (each.get("at"), who, each.get("role"), each.get("from"), each.get("what"), each.get("status"), why)
        table.add_row(*("" if cell is None else cell for cell in cells))
    print_table(table)

"""What a service has done, as people read it."""

from __future__ import annotations

from collections.abc import Iterator

from stormwright.cli.asking import client_of
from stormwright.cli.lines import say
from stormwright.cli.output import print_json, print_table, text_table
from stormwright.client.shapes import Done, DoneMove
from stormwright.model.humanize import in_utc

#: Entries that are told at most.
MOST = 1000

#: Mode → what the service does by itself.
_BY_ITSELF = {
    "observe": "it moves nothing by itself",
    "suggest": "it makes plans, which people apply",
    "auto": "it moves what pays",
}


def print_done(address: str, by: str, limit: int, as_json: bool) -> None:
    """Print the newest entries of a service's history.

    Parameters
    ----------
    address, by
        Of the service, and who asks it.
    limit
        Entries at most.
    as_json
        Print them as JSON.
    """
    client = client_of(address, by)
    found = client.history(limit)
    if as_json:
        print_json(found.model_dump(mode="json"))
        return
    if not found.done:
        say("nothing was done so far: moves, reverts and changes of mode will stand here, with what came of them")
        mode = client.modes().default
        say(f"the mode is {mode}: {_BY_ITSELF[mode]}; `stormwright plan` shows what could be moved")
        return
    table = text_table("n", "at", "what", "who", "why", "came of it")
    for each in found.done:
        came = came_of(each)
        table.add_row(each.n, in_utc(each.at_ms), f"{each.kind} {each.plan}".strip(), each.who, each.reason, came)
    print_table(table)
    if found.more:
        say(f"there are older ones: --limit {min(2 * limit, MOST)}" if limit < MOST else "there are older ones")


def came_of(done: Done) -> str:
    """What came of an entry, in a line."""
    return "; ".join(_came_of(done)) or done.text


def _came_of(done: Done) -> Iterator[str]:
    for move in done.moves:
        if move.failure:
            yield f"{move.name}: {move.failure}"
        elif move.judged:
            yield f"{move.name}: {', '.join(_judged(move))}"
        else:
            pause = "" if move.pause_s is None else f", paused {move.pause_s:.0f} s"
            yield f"{move.name} moved{pause}"


def _judged(move: DoneMove) -> Iterator[str]:
    for each in move.judged:
        measured = "unknown" if each.measured is None else f"{each.measured:.2f}"
        yield f"{each.quantity} × {measured} ({each.predicted:.2f} promised)"

"""What is wrong with supervisors."""

from __future__ import annotations

import math
from collections.abc import Iterator

from stormwright.model.amounts import MOST_AMOUNT
from stormwright.model.cluster import Supervisor
from stormwright.model.validation.faults import Wrong, amount_wrong, integer_wrong, number_wrong, text_wrong, twice

_LAST_PORT = 65535


def cluster_wrong(supervisors: tuple[Supervisor, ...], before: tuple[Supervisor, ...] = ()) -> Iterator[Wrong]:
    """All that is wrong with them, each with the path from the problem.

    Nodes of a large cluster are many, so each is first looked at as a whole (`_is_sound`).

    Parameters
    ----------
    supervisors
        Of the problem.
    before
        Those that were checked already.
    """
    known = set(map(id, before))
    yield from twice([node.id for node in supervisors], "supervisors")
    for index, node in enumerate(supervisors):
        if id(node) not in known and not _is_sound(node):
            yield from (wrong.within("supervisors", index) for wrong in _node_wrong(node))


def _is_sound(node: Supervisor) -> bool:
    """Whether the common case holds; the many nodes of a large cluster are not looked at more closely."""
    ports, amounts = node.ports, node.resources.values()
    return (
        bool(node.id and node.host)
        and node.link_bps is None
        and set(map(type, (node.id, node.host, node.rack))) == {str}
        and set(map(type, (node.cpu_hz, *amounts))) == {float}
        and set(map(type, ports)) <= {int}
        and len(set(ports)) == len(ports)
        and (not ports or (min(ports) >= 0 and max(ports) <= _LAST_PORT))
        and all(0 <= amount <= MOST_AMOUNT for amount in amounts)
        and node.cpu_hz >= 0
    )


def _node_wrong(node: Supervisor) -> Iterator[Wrong]:
    yield from text_wrong(node.id, "id")
    yield from text_wrong(node.host, "host")
    if not isinstance(node.rack, str):
        yield Wrong(f"should be a text, got {node.rack!r}", ("rack",))
    for position, port in enumerate(node.ports):
        yield from integer_wrong(port, 0, _LAST_PORT, "ports", position)
        if port in node.ports[:position]:
            yield Wrong(f"port {port} is there twice", ("ports", position))
    # A supervisor without a limit has infinitely much.
    yield from number_wrong(node.cpu_hz, 0, math.inf, "should be a number, at least 0", "cpu_hz")
    for name, amount in node.resources.items():
        yield from amount_wrong(amount, "resources", name)
    if node.link_bps is not None and node.link_bps != 0:
        yield from amount_wrong(node.link_bps, "link_bps")
    elif node.link_bps == 0:
        yield Wrong("should be a number above 0, got 0", ("link_bps",))

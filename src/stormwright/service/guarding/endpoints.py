"""The endpoints by which people keep nodes out of use, and are told what keeps things from moving."""

from __future__ import annotations

from collections.abc import Sequence

from stormwright.client import guarding as shapes
from stormwright.client.shapes import Told
from stormwright.service.http.endpoints import Endpoint

GUARDING: Sequence[Endpoint] = (
    Endpoint(
        "GET",
        "/v1/drains",
        "Nodes that take nothing new, and how many workers are still on each.",
        shapes.Drains,
        lambda desk, _: desk.nodes.drained(),
    ),
    Endpoint(
        "POST",
        "/v1/nodes/{node}/drain",
        "Let a node (a host, or the id of a supervisor on it) take nothing new, and plan away what runs there. The "
        "plan begins by itself unless `wait` says that it is only made.",
        shapes.DrainBegun,
        lambda desk, asking: desk.nodes.drain(asking.path["node"], asking.body),
        shapes.DrainAsked,
        202,
    ),
    Endpoint(
        "POST",
        "/v1/nodes/{node}/uncordon",
        "Let a drained node take what comes again.",
        shapes.Drained,
        lambda desk, asking: desk.nodes.uncordon(asking.path["node"], asking.body),
        Told,
    ),
)

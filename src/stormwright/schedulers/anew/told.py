"""What a scheduler does with what runs, in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from stormwright.schedulers.kit.traits import Traits
from stormwright.schedulers.kit.triggers import BALANCE, NODES, TRAFFIC, Adaptation

_GAINS: Final = {
    TRAFFIC: "less traffic between nodes",
    NODES: "fewer nodes",
    BALANCE: "less CPU of the busiest workers",
}


def what_runs(traits: Traits) -> str:
    """What becomes of what runs by default, and otherwise."""
    if traits.moves_running:
        return "It moves of that what pays; with `--anew` it answers as if nothing ran."
    if not traits.adapts.ever:
        return "It leaves that where it is; with `--anew` it answers as if nothing ran."
    return " ".join(
        [
            "It leaves that where it is; with `--anew`, which is the default of `serve`, it answers as if nothing ran.",
            *_moments(traits.adapts),
        ]
    )


def _moments(adapts: Adaptation) -> Iterator[str]:
    """When a service asks it, and for what it moves then."""
    looks = {"every `--period`": adapts.on_period, "once the load has drifted": adapts.on_drift}
    when = " and ".join(text for text, on in looks.items() if on)
    if when:
        yield f"A service asks it {when}, and moves for {' or '.join(_GAINS[kind] for kind in adapts.gains)}."
    if adapts.on_overload:
        yield "A service asks it once a node was overloaded for `--overload` seconds, and moves whatever that gains."

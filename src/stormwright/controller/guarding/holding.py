"""Why nothing may move now, in a word and a sentence: much of the cluster is missing, or not measured."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Literal

from stormwright.model.humanize import counted

#: ``missing``: too many nodes that were there lately are not; ``rebalancing``: somebody else moves things; ``silent``:
#: Nimbus has not asked for long; ``unmeasured``: too little was measured; ``stale``: what was measured is too old.
Word = Literal["missing", "rebalancing", "silent", "unmeasured", "stale"]

#: More than this part of the nodes may not be missing, as in Cruise Control
#: (``fixable.failed.broker.percentage.threshold``).
MOST_MISSING = 0.4

#: A node counts as one that was there lately for so many seconds; then it is gone for good.
LATELY_S = 1800.0

#: Nodes that are told by name.
_SHOWN = 3


@dataclass(frozen=True)
class Hold:
    """Nothing moves now: why in a word, and in a sentence."""

    word: Word
    why: str


@dataclass
class Attendance:
    """Which nodes were there lately; O(nodes), and it forgets those that are gone for good.

    Parameters
    ----------
    most_missing
        The part of them that may be missing, from 0 to 1.
    seen_s
        Node → when it was seen last, in seconds of one clock.
    """

    most_missing: float = MOST_MISSING
    seen_s: dict[str, float] = field(default_factory=dict)

    def see(self, nodes: Collection[str], now_s: float) -> None:
        """These are there now."""
        self.seen_s.update(dict.fromkeys(nodes, now_s))
        if len(self.seen_s) > len(nodes):
            self.seen_s = {node: at_s for node, at_s in self.seen_s.items() if now_s - at_s <= LATELY_S}

    def restore(self, seen_s: Mapping[str, float]) -> None:
        """What was known before a restart."""
        self.seen_s = {**seen_s, **self.seen_s}

    def hold(
        self, nodes: Collection[str], excused: Collection[str] = (), name: Callable[[str], str] = str
    ) -> Hold | None:
        """Whether too many are missing.

        Parameters
        ----------
        nodes
            That are there.
        excused
            Nodes that somebody has taken out of use: they may be away.
        name
            What people call a node.
        """
        missing = sorted(self.seen_s.keys() - set(nodes) - set(excused))
        total = len(missing) + len(nodes)
        if not missing or len(missing) <= self.most_missing * total:
            return None
        named = ", ".join(sorted(map(name, missing))[:_SHOWN]) + (", …" if len(missing) > _SHOWN else "")
        some = counted(len(missing), "node")
        return Hold(
            "missing",
            f"{some} of {total} that were there in the last {LATELY_S / 60:g} min are missing ({named}): nothing moves "
            f"while more than {100 * self.most_missing:g} % are",
        )

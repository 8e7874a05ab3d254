"""Limits that only some schedulers heed: what an explanation of their placements has to know of them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from stormwright.model.arrays import BoolArray, FloatArray

if TYPE_CHECKING:
    from stormwright.model.cluster import Supervisor
    from stormwright.model.problem import Problem

#: Key of `supervisor.scheduler.meta`: the tags of a supervisor, separated by commas.
TAGS: Final = "tags"

#: What a component or a supervisor without a tag is called.
UNTAGGED: Final = "untagged"


class Forbidden(NamedTuple):
    """Nodes that a limit forbids, shape (N,), its kind and what is missing, in words."""

    kind: str
    text: str
    nodes: BoolArray


class ExtraLimit:
    """A limit that only some schedulers heed; this one forbids nothing."""

    def capacity(self, capacity: FloatArray) -> FloatArray:
        """What it leaves of the capacity of nodes, by resource, shape (K, N)."""
        return capacity

    def forbids(
        self,
        problem: Problem,  # noqa: ARG002  # what forbids something looks at it
        topology: int,  # noqa: ARG002
        component: int,  # noqa: ARG002
    ) -> Iterator[Forbidden]:
        """The nodes that executors of a component (by index in its topology, by index) may not be on.

        Parameters
        ----------
        problem
            Whose nodes.
        topology, component
            Indices of the topology, and of the component in it.
        """
        return iter(())


@dataclass(frozen=True)
class CpuShare(ExtraLimit):
    """Executors use only a part of a node's CPU.

    Parameters
    ----------
    part
        From 0 to 1.
    """

    part: float

    def capacity(self, capacity: FloatArray) -> FloatArray:
        """That part of the CPU, and all of the rest."""
        left = capacity.copy()
        left[0] *= self.part
        return left


@dataclass(frozen=True)
class Tags(ExtraLimit):
    """A component runs only on nodes that have all its tags.

    Parameters
    ----------
    untagged_apart
        Whether components without a tag run only on nodes without one.
    """

    untagged_apart: bool = False

    def forbids(self, problem: Problem, topology: int, component: int) -> Iterator[Forbidden]:
        """Nodes without some of the tags, those that miss the same together."""
        tags = tags_of(problem.topologies[topology].components[component].tags)
        lacking: dict[str, list[int]] = {}
        for node, supervisor in enumerate(problem.supervisors):
            own = tags_of_node(supervisor)
            missing = sorted(tags - own)
            if not missing and not tags and own and self.untagged_apart:
                missing = [UNTAGGED]
            if missing:
                names = ", ".join(f'"{tag}"' for tag in missing)
                lacking.setdefault(f"{'tag' if len(missing) == 1 else 'tags'} {names} missing", []).append(node)
        for text, nodes in lacking.items():
            yield Forbidden("tag", text, np.isin(np.arange(len(problem.supervisors)), nodes))


def tags_of(texts: Collection[str]) -> frozenset[str]:
    """The tags in texts like ``"gpu, ssd"``."""
    return frozenset(tag.strip() for tag in ",".join(texts).split(",") if tag.strip())


def tags_of_node(node: Supervisor) -> frozenset[str]:
    """The tags that a supervisor carries."""
    return tags_of([(node.scheduler_meta or {}).get(TAGS, "")])

"""Where something goes that waits does not depend on the order of what runs."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations, product

import pytest

from stormwright.model import Problem
from stormwright.schedulers import ant_colony, genetic, make_scheduler, scheduler_names
from stormwright.schedulers.templates.utilisation import Utilisation
from tests.schedulers.builders import load, nodes, problem, running, topology

#: Their sum has another last digit in another order.
CPU_GHZ = (1 / 3, 0.7, 2 / 3)

#: Draws its steps among all that may move, by position; and who asks it.
RANDOM_STEPS = {"optimizer", "n_version"}

PAIRS = [(0, 1, 1 / 3), (1, 2, 0.1)]


def alike() -> Problem:
    """Two nodes with the same on them, but in another order, and a topology that waits for a place on either."""
    runs = [
        (topology(f"t{n}", 1, 1), load(1, cpu_ghz=CPU_GHZ[n % 3], memory_mb=100 * CPU_GHZ[n % 3])) for n in range(6)
    ]
    waits = topology("new", 3, 1), load(3, PAIRS, cpu_ghz=1 / 3, memory_mb=100 / 3)
    of = problem(nodes(3, 3, ports=6), *runs, waits)
    return running(of, [0, 1, 2, 6, 7, 8, -1, -1, -1])


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in scheduler_names() if name not in RANDOM_STEPS])
def test_sums_over_running_topologies_are_independent_of_order(name):
    of = alike()
    *runs, new = of.topologies
    found = set()
    for first, then in product(permutations(runs[:3]), permutations(runs[3:])):
        reordered = replace(of, topologies=(*first, *then, new))
        slots = make_scheduler(name).schedule(reordered).by_topology(reordered)[new.id]
        found.add((slots.slots, slots.slot_of_executor))
    assert len(found) == 1


@pytest.mark.slow
def test_search_objective_is_independent_of_topology_order():
    """To the last digit, or a search would take it for better than it is."""
    of, ants, genes = alike(), set(), set()
    of = running(of, [*of.current_slot[:6].tolist(), 3, 3, 9])
    for order in permutations(of.topologies):
        reordered = replace(of, topologies=order)
        slots, utilisation = reordered.current_slot[None], Utilisation(reordered, 1000 / 3)
        ants.add(float(ant_colony._objective(utilisation, reordered.slot_node[slots])[0]))  # noqa: SLF001
        topology_of = genetic._topology_of_slot(reordered, slots[0])  # noqa: SLF001
        genes.add(float(genetic._objective(topology_of, utilisation, slots, reordered.slot_node[None])[0]))  # noqa: SLF001
    assert len(ants) == 1
    assert len(genes) == 1

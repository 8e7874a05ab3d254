"""Bounds without a limit of size: what groups of limited size keep of each topology, and how topologies share nodes.

::

    semidefinite ◀─ triangles       certificates of one topology: what its workers, and its pieces on nodes, keep
        │
        ▼
    relaxed_bound ─┬─▶ sharing      prices for the room on nodes: any size
                   └─▶ pieces       whole pieces on nodes: a mixed-integer program, as far as time goes
"""

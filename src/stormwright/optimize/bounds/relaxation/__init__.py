"""Bounds for problems of any size: traffic within groups of limited size per topology, and sharing of nodes.

::

    semidefinite ◀─ triangles       certificates of one topology: traffic within its workers, and its pieces on nodes
        │
        ▼
    relaxed_bound ─┬─▶ sharing      prices for capacity of nodes: any size
                   └─▶ pieces       whole pieces on nodes: a mixed-integer program, within the time limit
"""

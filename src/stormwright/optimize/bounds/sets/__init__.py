"""Proofs for few executors: each node has one set of executors, and every executor is in one set.

::

    exact ─▶ node_sets ─▶ pair_shares, worker_split     prices, and the sets that are worth more than they pay
      └─▶ combinations ─▶ partition                     all combinations of sets that could be better
"""

"""Proofs for few executors: a node has one set of them, and every executor is in one set.

::

    exact ─▶ node_sets ─▶ pair_shares, worker_split     prices, and the sets that are worth more than they pay
      └─▶ put_together ─▶ partition                     all ways to put those together that could be better
"""

"""Heaviest matchings of what is new to what there is."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

#: New one and old one → what it is worth that the new one takes the old one's name.
Worth = Mapping[tuple[int, int], float]


def heaviest(worth: Worth) -> dict[int, int]:
    """New one → old one, each at most once, of the greatest worth together; who would gain nothing has none.

    Parameters
    ----------
    worth
        Above 0, of the pairs that are worth anything: integers, so that sums are exact.
    """
    rows, columns = ({each: number for number, each in enumerate(sorted({p[s] for p in worth}))} for s in (0, 1))
    if len(rows) == len(worth) == len(columns):
        return dict(worth.keys())
    from scipy.sparse import coo_array  # both take a while, and few answers need them
    from scipy.sparse.csgraph import min_weight_full_bipartite_matching

    # Each may also take a column of its own, which is worth nothing. Costs are above 0, as those of 0 are no entries.
    nothing = max(worth.values()) + 1.0
    row = [rows[new] for new, _ in worth] + list(range(len(rows)))
    column = [columns[old] for _, old in worth] + list(range(len(columns), len(columns) + len(rows)))
    cost = [nothing - value for value in worth.values()] + [nothing] * len(rows)
    graph = coo_array((np.array(cost), (np.array(row), np.array(column)))).tocsr()
    new, old = min_weight_full_bipartite_matching(graph)
    of_row, of_column = list(rows), list(columns)
    taken = zip(new.tolist(), old.tolist(), strict=True)
    return {of_row[n]: of_column[o] for n, o in taken if o < len(columns)}

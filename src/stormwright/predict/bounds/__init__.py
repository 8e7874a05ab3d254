"""Bounds on all placements: the highest rates, and the fewest nodes that sustain given rates.

::

    profile ─▶ units ─▶ simple        any size: all work by all CPU, the busiest thread
                    └─▶ program ─▶ prove    a mixed-integer program, as far as its size and the time allow

A bound counts no more than a prediction does: no placement is predicted to take less than is counted here, so a bound
holds for every placement.
"""

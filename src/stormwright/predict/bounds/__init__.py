"""What no placement can reach: the highest rates, and the fewest nodes that sustain given ones.

::

    profile ─▶ units ─▶ simple        any size: all work by all CPU, the busiest thread
                    └─▶ program ─▶ prove    a mixed-integer program, as far as its size and the time allow

A bound sees less than a prediction does: whatever a placement takes by a prediction, it takes no less than is counted
here, so what is bounded holds for all of them.
"""

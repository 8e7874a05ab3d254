"""From the performance log to what messages and workers cost, with the errors of that.

::

    records ─▶ windows ─▶ rows ─▶ moments ─▶ known (kept, by topology and placement) ─▶ calibration ─▶ costs
"""

"""Calibration: costs of messages and workers with their errors, from the performance log.

::

    records ─▶ windows ─▶ rows ─▶ moments ─▶ evidence (stored by topology and placement) ─▶ calibration ─▶ costs
"""

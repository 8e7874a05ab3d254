"""Search for a better configuration of a running topology.

::

    knobs.py    changes that can be tried, one at a time
    effects.py  what each is expected to bring beyond the model, as learned from trials
    search.py   the next trial: the change, or changes together, of highest expected improvement
"""

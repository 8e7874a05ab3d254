"""The steady state of a placement: what rate it sustains, how full everything is, and how long a tuple tree takes."""

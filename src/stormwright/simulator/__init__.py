"""The virtual cluster: what happens to tuples in virtual time, and what a real cluster would tell of it."""

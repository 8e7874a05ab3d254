"""Hard constraints of a placement: one class each, which finds its violations."""

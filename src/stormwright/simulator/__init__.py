"""A virtual Storm cluster that reports like a real one, in virtual time."""

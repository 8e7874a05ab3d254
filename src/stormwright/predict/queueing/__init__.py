"""How long tuples wait, and trees take."""

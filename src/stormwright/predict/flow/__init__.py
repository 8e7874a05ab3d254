"""Flow of tuples: the tuples that each one triggers, and their routes under a placement."""

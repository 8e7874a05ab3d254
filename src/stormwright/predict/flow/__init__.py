"""Flow of tuples: what every tuple triggers, and where it goes under a placement."""

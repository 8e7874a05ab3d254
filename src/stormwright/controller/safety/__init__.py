"""Safety: conditions that forbid moves, and nodes to evacuate; pure functions."""

"""Files, locks, clocks and texts for every package; nothing of the domain."""

"""Published rules that count executors from what was seen, one a module."""

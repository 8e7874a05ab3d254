"""A real cluster: what moves gain, cost and lose."""

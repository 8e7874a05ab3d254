"""Lab: cells on a real local cluster, measured at rest, while nodes die, and while topologies move."""

"""Templates of policies: topologies in a queue, or a search from a valid placement to a better one."""

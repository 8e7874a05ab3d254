"""Leader election: one of several services leads, the others replicate its decisions and stand by."""

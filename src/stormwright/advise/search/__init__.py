"""Our own advice: the cheapest cluster and the fewest executors that `stormwright.predict` says are enough."""

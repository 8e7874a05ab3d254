"""Search for the cheapest cluster and the fewest executors that suffice by `stormwright.predict`."""

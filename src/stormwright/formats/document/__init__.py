"""JSON documents and the model: problems, loads, assignments, sweeps; each fault with its path."""

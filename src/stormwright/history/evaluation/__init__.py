"""Evaluation of moves by windows of the performance log before and after them.

- `window`: the windows, one kind of measurement for all questions;
- `moves`: is a topology worse since its move? Looked at with each window, so that a loss is rolled back early;
- `verdict`: once enough was measured, did it come as predicted, and by how much?
- `outcome`: does a person have to look at it before the next stage?
- `comparison`: which of two placements is faster, over starts of new workers (the demonstration, and benchmarks);
- `measured`: what has not been measured for long enough to decide on.
"""

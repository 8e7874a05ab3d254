"""Training of the `learned` scheduler: problems, placements, their predicted quality, and trees."""

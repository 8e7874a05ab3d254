"""What `learned` goes by, made anew: problems, placements of them, what these come to, and trees that learn it."""

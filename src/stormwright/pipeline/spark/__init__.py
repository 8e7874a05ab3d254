"""Where Spark runs, and everything that is said to it."""
